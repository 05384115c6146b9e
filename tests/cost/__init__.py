"""What the hot paths cost, counted and compared with what is recorded (``make costs``)."""
