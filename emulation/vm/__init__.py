"""A virtual machine for tasks beyond the host's kernel: image, boot, and a channel to it."""
