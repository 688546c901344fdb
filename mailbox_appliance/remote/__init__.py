"""Other people's servers: IMAP, SMTP, signing in. Only here: imapclient and smtplib. No store, no rules of mail."""
