"""Where units of work run: in this process, or in several on this machine."""
