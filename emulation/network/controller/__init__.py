"""The OpenFlow controller of the mesh access points, on Ryu or os-ken.

`flows` computes what the bridges do, without either; `ryu_app` programs them.  The application runs
in an environment of its own (`requirements/ryu.lock`, `os-ken.lock`), so nothing here imports
anything but that and the standard library: neither the scenario nor the node app.
"""
