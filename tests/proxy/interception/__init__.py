"""The interception room, through the real proxy and over real sockets."""
