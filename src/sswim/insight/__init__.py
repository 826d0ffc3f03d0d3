"""What a fitted ensemble has learnt: relevance of inputs, local metrics, effects."""
