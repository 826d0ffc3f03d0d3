"""What measures sswim: peers, data sets by name, benches, the paper's tables and figures."""
