"""JupyterHubs are told when an evicted notebook is back, so that their proxies lead to its new address."""
