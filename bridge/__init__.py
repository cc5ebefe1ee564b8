"""The relay: fans agents' sessions out to dashboards and brings answers back."""
