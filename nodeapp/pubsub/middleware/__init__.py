"""Third-party publish/subscribe systems, one file each: started and talked to, not imitated."""
