"""What a teacher needs in the room: progress, a board of everyone's scaling, slides, a site to read, new lessons."""
