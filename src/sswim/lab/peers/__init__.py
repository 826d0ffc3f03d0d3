"""Other methods of regression behind one protocol."""
