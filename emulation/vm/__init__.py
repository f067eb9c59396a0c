"""A virtual machine for what the host's kernel cannot do: an image, a boot, a channel to it."""
