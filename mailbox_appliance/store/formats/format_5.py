"""Format 5, the schema of the present store: one completely encrypted SQLite file.

Times about people are RFC 3339 text, times about mail are milliseconds since 1970. The main tables:

    members --< sessions, api_keys, invitations        accounts --< account_grants, folders --< messages -- bodies
    messages -- message_index (full text)              messages --< cached_parts --< cached_chunks
    delivery_operations --< delivery_phases, --< delivery_chores, -- delivery_messages --< delivery_chunks
    uploads (files to attach) --< upload_chunks
    audit_events (append-only, chained by HMAC)        settings, oauth_apps, legacy_idempotency
    changes (the journal of changes, for readers of events)

`messages.id` is the ID that clients see; it stays when the message moves. `messages.number` is the row number, and the
key of the search index: the date at the server in seconds, times 16, counted up for messages of the same second. So it
orders messages by date. A message has no `uid` in two cases: the appliance made it and the server does not have it yet,
or it is `gone` from its folder. A gone message is kept until every other folder has been checked for it.

Only triggers write to `changes`, in the transaction of the change itself, so that no change is missing there. A message
is reported as created once its body is known.
"""

NUMBER = 5
APPLICATION_ID = 0x4D424F58  # "MBOX"

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;  -- value: JSON

CREATE TABLE members (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL,
  email_key TEXT NOT NULL UNIQUE,  -- the email address in the form in which it is compared
  role TEXT NOT NULL CHECK (role IN ('admin', 'member')),
  status TEXT NOT NULL CHECK (status IN ('active', 'suspended')),
  password_hash TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, last_login_at TEXT) STRICT;
CREATE INDEX members_legacy ON members (id) WHERE substr(password_hash, 1, 7) = 'scrypt$';
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, member_id TEXT NOT NULL REFERENCES members (id) ON DELETE CASCADE,
  token_hash TEXT NOT NULL UNIQUE,  -- SHA-256, hex
  device_name TEXT NOT NULL, created_at TEXT NOT NULL, last_used_at TEXT NOT NULL,
  logged_in_at TEXT NOT NULL) STRICT;  -- earlier than created_at if made from another session
CREATE INDEX sessions_member ON sessions (member_id);
CREATE INDEX sessions_used ON sessions (last_used_at);
CREATE INDEX sessions_logged_in ON sessions (logged_in_at);
CREATE TABLE invitations (
  id TEXT PRIMARY KEY, member_id TEXT NOT NULL REFERENCES members (id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('invitation', 'password_reset', 'console_link')),
  token_hash TEXT NOT NULL UNIQUE, expires_at TEXT NOT NULL, used_at TEXT,
  by_key INTEGER NOT NULL DEFAULT 0,  -- 1: an API key requested it and was shown it
  session_id TEXT REFERENCES sessions (id) ON DELETE CASCADE) STRICT;  -- a console link ends with its session
CREATE INDEX invitations_member ON invitations (member_id, kind);
CREATE INDEX invitations_session ON invitations (session_id) WHERE session_id IS NOT NULL;
CREATE TABLE api_keys (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, member_id TEXT NOT NULL REFERENCES members (id) ON DELETE CASCADE,
  token_hash TEXT NOT NULL UNIQUE,
  permission_profile TEXT NOT NULL CHECK (permission_profile IN ('read-only', 'read-write', 'full', 'custom')),
  capabilities TEXT NOT NULL, supplemental_capabilities TEXT NOT NULL DEFAULT '[]',  -- JSON arrays
  account_ids TEXT,  -- JSON array, or NULL for every mailbox
  made_by_member_id TEXT,  -- the member who was shown the token; NULL: the owner
  sending_policy TEXT,  -- JSON: see SendingPolicy; NULL: none
  created_at TEXT NOT NULL, last_used_at TEXT, revoked_at TEXT) STRICT;
CREATE INDEX api_keys_member ON api_keys (member_id);
CREATE TABLE attempts (bucket TEXT NOT NULL, at INTEGER NOT NULL) STRICT;  -- failed sign-ins; at: milliseconds
CREATE INDEX attempts_bucket ON attempts (bucket, at);

CREATE TABLE accounts (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  owner_member_id TEXT REFERENCES members (id),  -- NULL: removed, and being deleted
  email TEXT NOT NULL COLLATE NOCASE, display_name TEXT,
  provider TEXT NOT NULL CHECK (provider IN ('imap', 'google', 'outlook')),
  connection TEXT NOT NULL,  -- JSON: imap/smtp host, port, security, username; or username, sendsVia, byDevice
  secret TEXT NOT NULL,  -- JSON: imapPassword, smtpPassword or refreshToken
  sender_addresses TEXT NOT NULL DEFAULT '[]',  -- JSON: reported by the provider
  mapped_folders TEXT NOT NULL DEFAULT '{}',  -- JSON: role -> path, set by a member
  shared_with_all INTEGER NOT NULL DEFAULT 0, status TEXT NOT NULL DEFAULT 'connecting',
  error_code TEXT, error_message TEXT, error_fault TEXT,
  met_sending INTEGER NOT NULL DEFAULT 0,  -- 1: the error came from sending, and a successful send clears it
  capabilities TEXT NOT NULL DEFAULT '{}',
  sending_policy TEXT,  -- JSON: see SendingPolicy; NULL: none
  created_at TEXT NOT NULL, last_sync_at TEXT) STRICT;
CREATE INDEX accounts_owner ON accounts (owner_member_id, email);
CREATE INDEX accounts_shared ON accounts (shared_with_all) WHERE shared_with_all = 1;
CREATE TABLE account_grants (
  account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  member_id TEXT NOT NULL REFERENCES members (id) ON DELETE CASCADE, PRIMARY KEY (account_id, member_id)) STRICT;
CREATE INDEX account_grants_member ON account_grants (member_id);
CREATE TABLE oauth_apps (
  provider TEXT PRIMARY KEY CHECK (provider IN ('google', 'outlook')), client_id TEXT NOT NULL, client_secret TEXT,
  tenant_id TEXT, public_client INTEGER NOT NULL DEFAULT 0, updated_at TEXT NOT NULL) STRICT;

CREATE TABLE folders (  -- numbers are not reused: code with an old number must not write to another folder
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  account INTEGER NOT NULL REFERENCES accounts (number) ON DELETE CASCADE,
  path TEXT NOT NULL, name TEXT NOT NULL, delimiter TEXT, role TEXT, role_source TEXT,
  uidvalidity INTEGER, uidnext INTEGER, exists_count INTEGER, highestmodseq INTEGER,
  label TEXT,  -- a label folder shows messages of other folders with this label; NULL: it contains messages
  UNIQUE (account, path)) STRICT;
CREATE INDEX folders_label ON folders (account, label) WHERE label IS NOT NULL;
CREATE TABLE threads (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
  account INTEGER NOT NULL REFERENCES accounts (number) ON DELETE CASCADE,
  base_subject TEXT,  -- case-folded (RFC 5256 2.1); NULL if there is none
  newest INTEGER NOT NULL DEFAULT 0,  -- internal date of its newest message, milliseconds
  provider_id TEXT,  -- the provider's ID of the thread, which alone decides its messages
  began_as_reply INTEGER NOT NULL DEFAULT 0) STRICT;  -- 1: its first message is not known
CREATE UNIQUE INDEX threads_provider ON threads (account, provider_id) WHERE provider_id IS NOT NULL;
CREATE INDEX threads_account ON threads (account, base_subject, newest);
CREATE INDEX threads_waiting ON threads (account, base_subject, newest) WHERE began_as_reply = 1;
CREATE TABLE thread_links (  -- every Message-ID that a thread's messages have or name
  account INTEGER NOT NULL, message_id TEXT NOT NULL,
  thread INTEGER NOT NULL REFERENCES threads (number) ON DELETE CASCADE,
  PRIMARY KEY (account, message_id)) STRICT, WITHOUT ROWID;
CREATE INDEX thread_links_thread ON thread_links (thread);
CREATE TABLE messages (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
  account INTEGER NOT NULL REFERENCES accounts (number) ON DELETE CASCADE,
  folder INTEGER NOT NULL REFERENCES folders (number) ON DELETE CASCADE,
  uid INTEGER, thread INTEGER NOT NULL REFERENCES threads (number),
  message_id TEXT, flags INTEGER NOT NULL DEFAULT 0, keywords TEXT NOT NULL DEFAULT '[]',
  date INTEGER NOT NULL, internal_date INTEGER NOT NULL, size INTEGER NOT NULL,
  subject TEXT NOT NULL, snippet TEXT NOT NULL,
  people TEXT NOT NULL,  -- JSON: from, to, cc, bcc, replyTo
  attachments TEXT NOT NULL DEFAULT '[]',  -- JSON: id, part, filename, mimeType, sizeBytes, contentId, disposition
  body INTEGER NOT NULL DEFAULT 1,  -- 0: at most the header was fetched, 1: complete, 2: large, read in parts
  gone INTEGER NOT NULL DEFAULT 0,  -- 1: not in its folder any more; 2: its folder does not exist any more either
  provider_id TEXT,  -- the provider's ID, which never changes; '': not reported yet; NULL: none
  UNIQUE (folder, uid)) STRICT;
CREATE INDEX messages_provider ON messages (account, provider_id) WHERE provider_id IS NOT NULL;
CREATE INDEX messages_folder ON messages (folder, number);
-- With `flags` in them these suffice; otherwise SQLite would read each row to check the condition.
CREATE INDEX messages_unread ON messages (folder, number, flags) WHERE flags & 1 = 0;
CREATE INDEX messages_starred ON messages (account, number, folder, flags) WHERE flags & 2 <> 0;
CREATE INDEX messages_with_attachment ON messages (account, number, folder, flags) WHERE flags & 64 <> 0;
CREATE INDEX messages_labeled ON messages (account, keywords, number, folder) WHERE keywords <> '[]';
CREATE INDEX messages_unfilled ON messages (folder, number) WHERE body = 0;
CREATE INDEX messages_gone ON messages (account, message_id) WHERE gone > 0;
CREATE INDEX messages_account ON messages (account, number, folder, date);
CREATE INDEX messages_date ON messages (account, date, folder);
CREATE INDEX messages_thread ON messages (thread, number);
CREATE INDEX messages_message_id ON messages (account, message_id);
CREATE TABLE message_labels (  -- the label folders that show a message, in addition to its own folder
  folder INTEGER NOT NULL REFERENCES folders (number) ON DELETE CASCADE,
  number INTEGER NOT NULL REFERENCES messages (number) ON DELETE CASCADE,
  flags INTEGER NOT NULL,  -- those of the message, so that lists and counts do not read messages
  PRIMARY KEY (folder, number)) STRICT, WITHOUT ROWID;
CREATE INDEX message_labels_message ON message_labels (number);
CREATE INDEX message_labels_unread ON message_labels (folder, number, flags) WHERE flags & 1 = 0;
CREATE VIEW messages_by_label AS  -- the rows for message_labels; none for messages in spam and trash
  SELECT f.number AS folder, m.number AS number, m.flags AS flags
    FROM messages m JOIN json_each(m.keywords) j CROSS JOIN folders f ON f.account = m.account AND f.label = j.value
    JOIN folders place ON place.number = m.folder AND coalesce(place.role, '') NOT IN ('spam', 'trash')
    WHERE m.provider_id IS NOT NULL AND m.keywords <> '[]'
  UNION ALL SELECT f.number, m.number, m.flags
    FROM messages m JOIN folders f ON f.account = m.account AND f.label = '\\Flagged'
    JOIN folders place ON place.number = m.folder AND coalesce(place.role, '') NOT IN ('spam', 'trash')
    WHERE m.provider_id IS NOT NULL AND m.flags & 2 <> 0
  UNION ALL SELECT f.number, m.number, m.flags
    FROM messages m JOIN folders f ON f.account = m.account AND f.label = '\\Draft'
    JOIN folders place ON place.number = m.folder AND coalesce(place.role, '') NOT IN ('spam', 'trash')
    WHERE m.provider_id IS NOT NULL AND m.flags & 4 <> 0;
-- Only these triggers write message_labels. A message without provider_id has no labels, which is cheap to check.
CREATE TRIGGER messages_come_by_label AFTER INSERT ON messages
  WHEN new.provider_id IS NOT NULL AND (new.keywords <> '[]' OR new.flags & 6 <> 0) BEGIN
  INSERT INTO message_labels SELECT folder, number, flags FROM messages_by_label WHERE number = new.number; END;
CREATE TRIGGER messages_change_by_label AFTER UPDATE OF folder, flags, keywords, provider_id ON messages
  WHEN new.provider_id IS NOT NULL AND (old.provider_id IS NULL
  OR old.keywords <> new.keywords OR old.flags <> new.flags OR old.folder <> new.folder) BEGIN
  DELETE FROM message_labels WHERE number = new.number
    AND folder NOT IN (SELECT folder FROM messages_by_label WHERE number = new.number); INSERT INTO message_labels
    SELECT folder, number, flags FROM messages_by_label WHERE number = new.number
    ON CONFLICT (folder, number) DO UPDATE SET flags = excluded.flags WHERE flags <> excluded.flags; END;
CREATE TRIGGER folders_change_by_label AFTER UPDATE OF label ON folders WHEN new.label IS NOT old.label BEGIN
  DELETE FROM message_labels WHERE folder = new.number; INSERT INTO message_labels
    SELECT folder, number, flags FROM messages_by_label
    WHERE folder = new.number AND number IN (
    SELECT m.number FROM messages m INDEXED BY messages_labeled JOIN json_each(m.keywords) j
      WHERE m.account = new.account AND m.keywords <> '[]' AND j.value = new.label
    UNION ALL SELECT number FROM messages WHERE new.label = '\\Flagged' AND account = new.account AND flags & 2 <> 0
    UNION ALL SELECT number FROM messages WHERE new.label = '\\Draft' AND account = new.account AND flags & 4 <> 0
    ); END;
CREATE TABLE undo_tokens (  -- one for each bulk action that changed something, for 24 hours
  number INTEGER PRIMARY KEY AUTOINCREMENT, token_hash TEXT NOT NULL UNIQUE,  -- SHA-256, hex
  account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  member_id TEXT NOT NULL REFERENCES members (id) ON DELETE CASCADE,
  action TEXT NOT NULL,
  changes TEXT NOT NULL,  -- JSON: the messages with their folder and flags before and after; [] after the undo
  expires_at INTEGER NOT NULL, used_at INTEGER) STRICT;
CREATE INDEX undo_tokens_account ON undo_tokens (account_id);
CREATE INDEX undo_tokens_member ON undo_tokens (member_id, number);
CREATE INDEX undo_tokens_expiry ON undo_tokens (expires_at);
CREATE TABLE bodies (
  number INTEGER PRIMARY KEY REFERENCES messages (number) ON DELETE CASCADE,
  text TEXT, html TEXT, headers TEXT NOT NULL DEFAULT '{}', warnings TEXT NOT NULL DEFAULT '[]') STRICT;
-- Full text of the messages, by `number`. `scope` contains `a<account number>`. prefix: prefixes of three
-- and of five characters are indexed; others are composed of these or of words (see store/search.py).
CREATE VIRTUAL TABLE message_index USING fts5(subject, sender, recipients, body, scope, content='',
  contentless_delete=1, detail=full, prefix='3 5', tokenize='unicode61 remove_diacritics 2');
INSERT INTO message_index (message_index, rank) VALUES ('pgsz', 3968);  -- fits an encrypted page of 4096 bytes
INSERT INTO message_index (message_index, rank) VALUES ('hashsize', 16777216);  -- one piece for each batch
INSERT INTO message_index (message_index, rank) VALUES ('automerge', 0);  -- store/maintenance/cleanup merges
INSERT INTO message_index (message_index, rank) VALUES ('usermerge', 8);  -- at least 8 pieces of one size,
INSERT INTO message_index (message_index, rank) VALUES ('crisismerge', 1000);  -- and never during a batch
CREATE VIRTUAL TABLE message_words USING fts5vocab('message_index', 'instance');  -- the indexed words
CREATE TRIGGER messages_leave_index AFTER DELETE ON messages BEGIN
  DELETE FROM message_index WHERE rowid = old.number; END;
CREATE TABLE cached_parts (  -- parts fetched on demand; the least recently used are evicted
  number INTEGER PRIMARY KEY, message INTEGER NOT NULL REFERENCES messages (number) ON DELETE CASCADE,
  part TEXT NOT NULL,  -- '': the raw message
  size INTEGER NOT NULL, used_at INTEGER NOT NULL, UNIQUE (message, part)) STRICT;
CREATE INDEX cached_parts_used ON cached_parts (used_at);
CREATE TABLE cached_chunks (
  part INTEGER NOT NULL REFERENCES cached_parts (number) ON DELETE CASCADE, position INTEGER NOT NULL,
  content BLOB NOT NULL, PRIMARY KEY (part, position)) STRICT;

CREATE TABLE delivery_operations (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  account_id TEXT NOT NULL, credential_id TEXT NOT NULL, member_id TEXT NOT NULL,
  idempotency_key TEXT, request_hash TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('send', 'forward', 'scheduled')),
  status TEXT NOT NULL CHECK (status IN ('queued', 'sending', 'succeeded', 'failed', 'uncertain')),
  phase TEXT NOT NULL, shown INTEGER NOT NULL DEFAULT 0,
  envelope TEXT NOT NULL, message_id_header TEXT NOT NULL,
  result_id TEXT NOT NULL, result_thread_id TEXT NOT NULL,
  result_warnings TEXT NOT NULL DEFAULT '{}',  -- JSON: topic -> text
  accepted_warnings TEXT NOT NULL DEFAULT '[]',  -- warnings at acceptance; `warnings`: those of the status
  warnings TEXT NOT NULL DEFAULT '[]', error_code TEXT, reply_code INTEGER, reply_enhanced TEXT,
  draft_id TEXT, draft_version TEXT, parent_id TEXT,  -- the saved draft; the message replied to or forwarded
  schedule_id TEXT UNIQUE, send_at TEXT, summary TEXT,  -- summary: JSON: to, subject
  attempts INTEGER NOT NULL DEFAULT 0, next_attempt_at INTEGER, last_cause TEXT,
  uncertain_at INTEGER, evidence_next_at INTEGER, evidence_looks INTEGER NOT NULL DEFAULT 0,
  copy TEXT NOT NULL DEFAULT 'none' CHECK (copy IN ('none', 'pending', 'filed')),
  copy_attempts INTEGER NOT NULL DEFAULT 0, copy_next_at INTEGER,  -- set if `copy` is pending
  provider_draft_id TEXT,  -- the provider's ID of the draft to send, stored before sending
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
  UNIQUE (credential_id, idempotency_key)) STRICT;
CREATE INDEX delivery_operations_account ON delivery_operations (account_id, number);
CREATE INDEX delivery_operations_member ON delivery_operations (account_id, member_id, number);
CREATE INDEX delivery_operations_of_all ON delivery_operations (account_id, number) WHERE kind = 'scheduled';
CREATE INDEX delivery_operations_credential ON delivery_operations (credential_id, number);
CREATE INDEX delivery_operations_open ON delivery_operations (status, number, account_id)
  WHERE status IN ('queued', 'sending', 'uncertain');
CREATE INDEX delivery_operations_scheduled ON delivery_operations (account_id, send_at, number)
  WHERE schedule_id IS NOT NULL AND status IN ('queued', 'sending', 'uncertain');
CREATE INDEX delivery_operations_due ON delivery_operations (account_id, next_attempt_at)
  WHERE next_attempt_at IS NOT NULL;
CREATE INDEX delivery_operations_evidence ON delivery_operations (evidence_next_at, account_id)
  WHERE evidence_next_at IS NOT NULL;
CREATE INDEX delivery_operations_draft ON delivery_operations (draft_id) WHERE draft_id IS NOT NULL;
CREATE INDEX delivery_operations_copy ON delivery_operations (copy_next_at, account_id) WHERE copy = 'pending';
CREATE INDEX delivery_operations_result ON delivery_operations (result_id) WHERE copy = 'pending';
CREATE TABLE approvals (  -- of deliveries that a person must approve; the queue starts no other
  operation TEXT PRIMARY KEY REFERENCES delivery_operations (id) ON DELETE CASCADE, id TEXT NOT NULL UNIQUE,
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'rejected', 'expired')),
  reasons TEXT NOT NULL, by_owner INTEGER NOT NULL,  -- reasons: JSON; by_owner: only the mailbox's owner may approve
  digest TEXT NOT NULL, message TEXT NOT NULL,  -- message: JSON: see MessageSummary
  created_at TEXT NOT NULL, expires_at TEXT NOT NULL,
  decided_at TEXT, decided_by TEXT, remark TEXT) STRICT;  -- remark: why it was rejected
CREATE INDEX approvals_pending ON approvals (status) WHERE status = 'pending';
CREATE TABLE delivery_messages (  -- separate, since the row of an operation is rewritten in every phase
  operation TEXT PRIMARY KEY REFERENCES delivery_operations (id) ON DELETE CASCADE,
  wire BLOB NOT NULL, bcc_header BLOB NOT NULL) STRICT;  -- for a large message its beginning, with the header
CREATE TABLE delivery_chunks (  -- the rest of a large message
  operation TEXT NOT NULL REFERENCES delivery_messages (operation) ON DELETE CASCADE,
  position INTEGER NOT NULL, content BLOB NOT NULL,
  PRIMARY KEY (operation, position)) STRICT;
CREATE TABLE delivery_phases (
  operation TEXT NOT NULL REFERENCES delivery_operations (id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL, phase TEXT NOT NULL, at TEXT NOT NULL) STRICT;
CREATE INDEX delivery_phases_operation ON delivery_phases (operation);
CREATE TABLE delivery_chores (  -- follow-up tasks at the mailbox's server after an operation has ended
  operation TEXT NOT NULL REFERENCES delivery_operations (id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('remove_draft', 'flag_parent', 'keep_draft')),
  attempts INTEGER NOT NULL DEFAULT 0, next_at INTEGER NOT NULL,
  PRIMARY KEY (operation, kind)) STRICT;
CREATE INDEX delivery_chores_due ON delivery_chores (next_at);
CREATE TABLE uploads (  -- files to attach, for an hour, or until a message or draft with them is accepted
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  member_id TEXT NOT NULL REFERENCES members (id) ON DELETE CASCADE,
  credential_kind TEXT NOT NULL CHECK (credential_kind IN ('session', 'api_key')), credential_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('linked', 'writing', 'complete')),  -- linked: the file has not come yet
  token_hash TEXT UNIQUE,  -- SHA-256, hex, of the link that it comes by
  filename TEXT NOT NULL, mime_type TEXT NOT NULL, size INTEGER NOT NULL DEFAULT 0, sha256 TEXT,
  expires_at INTEGER NOT NULL,
  used_by TEXT REFERENCES delivery_operations (id) ON DELETE SET NULL) STRICT;  -- free again if that is withdrawn
CREATE INDEX uploads_member ON uploads (member_id);
CREATE INDEX uploads_used ON uploads (used_by) WHERE used_by IS NOT NULL;
CREATE TABLE upload_chunks (  -- those without an upload are deleted in the background, a few at a time
  upload INTEGER NOT NULL, position INTEGER NOT NULL, content BLOB NOT NULL, PRIMARY KEY (upload, position)) STRICT;
CREATE TRIGGER uploads_end AFTER UPDATE OF shown ON delivery_operations WHEN new.shown AND NOT old.shown BEGIN
  DELETE FROM uploads WHERE used_by = new.id; END;
CREATE TRIGGER uploads_end_at_once AFTER UPDATE OF used_by ON uploads
  WHEN (SELECT shown FROM delivery_operations WHERE id = new.used_by) BEGIN
  DELETE FROM uploads WHERE number = new.number; END;
CREATE TABLE legacy_idempotency (  -- answers of releases without delivery operations, valid for 24 hours
  credential_id TEXT NOT NULL, idempotency_key TEXT NOT NULL, request_hash TEXT NOT NULL,
  status INTEGER NOT NULL, response_body TEXT NOT NULL, expires_at TEXT NOT NULL,
  PRIMARY KEY (credential_id, idempotency_key)) STRICT;

CREATE TABLE audit_events (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, at TEXT NOT NULL,
  actor_kind TEXT NOT NULL, actor_id TEXT, actor_member_id TEXT, action TEXT NOT NULL,
  target_kind TEXT, target_id TEXT, outcome TEXT NOT NULL, client_address TEXT,
  about_member_id TEXT,  -- the member concerned, in addition to the one who acted
  mac BLOB NOT NULL) STRICT;
CREATE INDEX audit_events_actor ON audit_events (actor_member_id, number) WHERE actor_member_id IS NOT NULL;
CREATE INDEX audit_events_about ON audit_events (about_member_id, number) WHERE about_member_id IS NOT NULL;
-- Recent actions on a member, for the warnings that the member gets.
CREATE INDEX audit_events_done ON audit_events (about_member_id, at)
  WHERE about_member_id IS NOT NULL AND outcome = 'success';
CREATE INDEX audit_events_keys ON audit_events (actor_id, at) WHERE actor_kind = 'api_key' AND outcome = 'success';
CREATE INDEX audit_events_restored ON audit_events (at) WHERE action = 'backup.restore';
-- This also prevents REPLACE, which deletes rows without running the trigger for that.
CREATE TRIGGER audit_events_add BEFORE INSERT ON audit_events
  WHEN EXISTS (SELECT 1 FROM audit_events WHERE number = new.number OR id = new.id)
  BEGIN SELECT RAISE(ABORT, 'audit rows are final'); END;
CREATE TRIGGER audit_events_stay BEFORE UPDATE ON audit_events BEGIN SELECT RAISE(ABORT, 'audit rows are final'); END;
CREATE TRIGGER audit_events_remain BEFORE DELETE ON audit_events BEGIN SELECT RAISE(ABORT, 'audit rows are final'); END;

CREATE TABLE webhooks (
  id TEXT PRIMARY KEY, member_id TEXT NOT NULL REFERENCES members (id) ON DELETE CASCADE,
  url TEXT NOT NULL, types TEXT NOT NULL, account_ids TEXT,  -- JSON arrays; account_ids: NULL for every mailbox
  include_body INTEGER NOT NULL DEFAULT 0,
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled')),
  secret TEXT NOT NULL, old_secret TEXT, old_secret_until TEXT,
  position INTEGER NOT NULL,  -- the last change that was delivered, or need not be
  replays INTEGER NOT NULL DEFAULT 0,  -- how often somebody set the position
  failures INTEGER NOT NULL DEFAULT 0, failing_since INTEGER, next_at INTEGER,  -- of the event after that
  created_at TEXT NOT NULL, last_success_at TEXT,
  last_failure_at TEXT, last_failure_status INTEGER, last_failure_reason TEXT) STRICT;
CREATE INDEX webhooks_member ON webhooks (member_id);
CREATE TABLE webhook_attempts (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
  event_id TEXT NOT NULL, at TEXT NOT NULL, status INTEGER, duration_ms INTEGER NOT NULL, error TEXT) STRICT;
CREATE INDEX webhook_attempts_webhook ON webhook_attempts (webhook, number);
CREATE TABLE changes (
  position INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
  kind INTEGER NOT NULL,  -- see KINDS in store/changes.py; 0: the rights of some credential have changed
  account INTEGER, subject TEXT) STRICT;  -- the mailbox's number; the ID of what has changed
CREATE TRIGGER changes_of_new_messages AFTER INSERT ON messages WHEN new.body > 0 BEGIN
  INSERT INTO changes (kind, account, subject) VALUES (1, new.account, new.id); END;
-- Readers are told of what lists show, so not of the flags for answered, forwarded and deleted messages. A message is
-- told of as moved when it is in its new folder, not while its old one is missing. With a provider's ID, labels decide
-- in which folder it is shown: the inbox, the drafts, the sent messages, or the one that it is in.
CREATE TRIGGER changes_of_messages AFTER UPDATE OF folder, thread, flags, keywords, date, subject, snippet, people,
  attachments, body, gone ON messages WHEN new.body > 0 AND (old.body = 0
  OR (new.gone < 2 AND (old.gone = 2 OR old.folder <> new.folder))
  OR (old.flags & 7) <> (new.flags & 7) OR old.keywords <> new.keywords OR old.thread <> new.thread
  OR old.date <> new.date OR old.subject <> new.subject OR old.snippet <> new.snippet OR old.people <> new.people
  OR old.attachments <> new.attachments) BEGIN
  INSERT INTO changes (kind, account, subject) VALUES (CASE WHEN old.body = 0 THEN 1
    WHEN new.gone < 2 AND (old.gone = 2 OR old.folder <> new.folder) THEN 3
    WHEN new.provider_id IS NULL OR old.provider_id IS NULL THEN 2
    WHEN CASE WHEN instr(old.keywords, '"\\\\Inbox"') THEN 1 WHEN old.flags & 4 <> 0 THEN 2
      WHEN instr(old.keywords, '"\\\\Sent"') THEN 3 ELSE 0 END
      <> CASE WHEN instr(new.keywords, '"\\\\Inbox"') THEN 1 WHEN new.flags & 4 <> 0 THEN 2
      WHEN instr(new.keywords, '"\\\\Sent"') THEN 3 ELSE 0 END THEN 3
    ELSE 2 END, new.account, new.id); END;
CREATE TRIGGER changes_of_deleted_messages AFTER DELETE ON messages
  WHEN old.body > 0 AND (SELECT status FROM accounts WHERE number = old.account) <> 'removed' BEGIN
  INSERT INTO changes (kind, account, subject) VALUES (4, old.account, old.id); END;
CREATE TRIGGER changes_leave AFTER DELETE ON accounts BEGIN DELETE FROM changes WHERE account = old.number; END;
-- A delivery is told of once its ID is shown, also if a warning comes after its success, such as of a missing copy.
CREATE TRIGGER changes_of_new_deliveries AFTER INSERT ON delivery_operations WHEN new.shown BEGIN
  INSERT INTO changes (kind, account, subject)
    VALUES (5, (SELECT number FROM accounts WHERE id = new.account_id), new.id); END;
CREATE TRIGGER changes_of_deliveries AFTER UPDATE OF status, shown, result_warnings ON delivery_operations
  WHEN new.shown AND (old.status <> new.status OR NOT old.shown
  OR (new.status = 'succeeded' AND old.result_warnings <> new.result_warnings)) BEGIN
  INSERT INTO changes (kind, account, subject)
    VALUES (5, (SELECT number FROM accounts WHERE id = new.account_id), new.id); END;
CREATE TRIGGER changes_of_new_accounts AFTER INSERT ON accounts BEGIN
  INSERT INTO changes (kind, account, subject) VALUES (0, NULL, NULL), (6, new.number, new.id); END;
CREATE TRIGGER changes_of_accounts AFTER UPDATE OF status, error_code, error_message ON accounts
  WHEN new.status <> 'removed' AND (old.status <> new.status OR old.error_code IS NOT new.error_code
  OR old.error_message IS NOT new.error_message) BEGIN
  INSERT INTO changes (kind, account, subject) VALUES (6, new.number, new.id); END;
CREATE TRIGGER changes_of_new_approvals AFTER INSERT ON approvals BEGIN
  INSERT INTO changes (kind, account, subject) SELECT 7, a.number, new.id
    FROM delivery_operations d LEFT JOIN accounts a ON a.id = d.account_id WHERE d.id = new.operation; END;
CREATE TRIGGER changes_of_approvals AFTER UPDATE OF status ON approvals WHEN old.status <> new.status BEGIN
  INSERT INTO changes (kind, account, subject) SELECT 8, a.number, new.id
    FROM delivery_operations d LEFT JOIN accounts a ON a.id = d.account_id WHERE d.id = new.operation; END;
-- Rights: readers that wait are checked again.
CREATE TRIGGER changes_of_access AFTER UPDATE OF owner_member_id, shared_with_all, status ON accounts
  WHEN old.owner_member_id IS NOT new.owner_member_id OR old.shared_with_all <> new.shared_with_all
  OR (new.status = 'removed') <> (old.status = 'removed') BEGIN
  INSERT INTO changes (kind) VALUES (0); END;
CREATE TRIGGER changes_of_new_grants AFTER INSERT ON account_grants BEGIN
  INSERT INTO changes (kind) VALUES (0); END;
CREATE TRIGGER changes_of_ended_grants AFTER DELETE ON account_grants BEGIN
  INSERT INTO changes (kind) VALUES (0); END;
CREATE TRIGGER changes_of_ended_sessions AFTER DELETE ON sessions BEGIN
  INSERT INTO changes (kind) VALUES (0); END;
CREATE TRIGGER changes_of_members AFTER UPDATE OF role, status ON members
  WHEN old.role <> new.role OR old.status <> new.status BEGIN
  INSERT INTO changes (kind) VALUES (0); END;
CREATE TRIGGER changes_of_api_keys AFTER UPDATE OF capabilities, supplemental_capabilities, permission_profile,
  account_ids, revoked_at ON api_keys BEGIN
  INSERT INTO changes (kind) VALUES (0); END;
CREATE TRIGGER changes_of_ended_api_keys AFTER DELETE ON api_keys BEGIN
  INSERT INTO changes (kind) VALUES (0); END;
"""
