"""Set-up of ticket systems: servers, settings, installation."""
