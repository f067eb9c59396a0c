"""Other people's publish/subscribe systems, one file each: started and spoken to, not imitated."""
