"""The paper's tables and figures, made again with the published numbers beside ours."""
