"""Other people's servers: IMAP, SMTP and signing in. Only here: imapclient and smtplib. No store, no decisions about mail."""
