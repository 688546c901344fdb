"""Mail servers, a sample mailbox and an appliance that leave nothing behind. Only here: pymap and aiosmtpd."""
