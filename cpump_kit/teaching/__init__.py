"""What the lessons use: real digits, guesses, scripts shown side by side, exercises with checks and hints."""
