"""Stand-ins for the wireless tools, for nodes whose radios are those of a medium process.

`iw`, `iwconfig` and `wpa_cli` speak to the kernel's 802.11, which such nodes do not have.  The
programs here have the same command line and output, as far as people and their scripts use them,
and query the medium (`emulation.media.wireless`); anything else ends with a non-zero exit code and
one line that says why.  A program finds its radios by the network namespace that it runs in.
Standard library only: they start in a few hundredths of a second.

`programs` writes them into a folder for the PATH of nodes.
"""
