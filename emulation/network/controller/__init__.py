"""The OpenFlow controller of the mesh access points, on Ryu or os-ken.

`flows` computes the flows of the bridges, without either; `ryu_app` installs them.  The application
runs in its own environment (`requirements/ryu.lock`, `os-ken.lock`), so nothing here imports more
than that and the standard library: neither the scenario nor the node app.
"""
