"""What every task's training shares: schedules, optimisers, and state that resumes exactly."""
