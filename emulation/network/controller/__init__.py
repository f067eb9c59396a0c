"""The OpenFlow controller of the mesh access points, on Ryu.

`flows` computes what the bridges do, without Ryu; `ryu_app` programs them.  The application runs in
an environment of its own (`requirements/ryu.lock`), so nothing here imports anything but Ryu and
the standard library: neither the scenario nor the node app.
"""
