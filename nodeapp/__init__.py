"""The node application: publish/subscribe protocols over one radio hop, without the testbed."""

from nodeapp.compiled import use

use()
