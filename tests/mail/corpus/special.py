"""Reports, signed and encrypted mail, external parts, and mail of particular programs."""
# ruff: noqa: E501 - a case on one line is easier to compare with its neighbors

from tests.mail.corpus.case import Case, case

BOUNDARY = "; boundary=b\n\n"
TEXT = "--b\nContent-Type: text/plain\n\nHi.\n"

CASES: list[Case] = [
    case(
        "a bounce",  # RFC 3464
        "Subject: Undelivered\nContent-Type: multipart/report; report-type=delivery-status"
        + BOUNDARY
        + TEXT
        + "--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; a@b\n"
        "--b\nContent-Type: text/rfc822-headers\n\nSubject: First\nTo: a@b\n--b--\n",
        text="Hi.",
        types=["message/delivery-status", "text/rfc822-headers"],
        names=["attachment-2", "attachment-3"],
    ),
    case(
        "a bounce with the message",
        "Subject: Undelivered\nContent-Type: multipart/report; report-type=delivery-status"
        + BOUNDARY
        + TEXT
        + "--b\nContent-Type: message/delivery-status\n\nAction: failed\n--b\nContent-Type: message/rfc822\n\n"
        "Subject: First\n\nHello.\n--b--\n",
        text="Hi.",
        names=["attachment-2", "First.eml"],
    ),
    case(
        "a receipt",  # RFC 8098
        "Subject: Read\nContent-Type: multipart/report; report-type=disposition-notification"
        + BOUNDARY
        + TEXT
        + "--b\nContent-Type: message/disposition-notification\n\nDisposition: manual-action/MDN-sent-manually; displayed\n--b--\n",
        text="Hi.",
        types=["message/disposition-notification"],
    ),
    case(
        "an abuse report",  # RFC 5965
        "Subject: Abuse\nContent-Type: multipart/report; report-type=feedback-report"
        + BOUNDARY
        + TEXT
        + "--b\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\n--b\nContent-Type: message/rfc822\n\n"
        "Subject: Spam\n\nBuy.\n--b--\n",
        text="Hi.",
        types=["message/feedback-report", "message/rfc822"],
    ),
    case(
        "signed with OpenPGP",  # RFC 3156
        'Subject: x\nContent-Type: multipart/signed; micalg=pgp-sha256; protocol="application/pgp-signature"'
        + BOUNDARY
        + TEXT
        + '--b\nContent-Type: application/pgp-signature; name="signature.asc"\n\n'
        "-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n--b--\n",
        text="Hi.",
        types=["application/pgp-signature"],
        names=["signature.asc"],
    ),
    case(
        "signed with S/MIME",  # RFC 8551
        'Subject: x\nContent-Type: multipart/signed; protocol="application/pkcs7-signature"'
        + BOUNDARY
        + TEXT
        + "--b\nContent-Type: application/pkcs7-signature; name=smime.p7s\nContent-Transfer-Encoding: base64\n"
        "Content-Disposition: attachment; filename=smime.p7s\n\nMIIB\n--b--\n",
        text="Hi.",
        listed=[("smime.p7s", "application/pkcs7-signature", 3, None, "attachment")],
    ),
    case(
        "signed, with an alternative in it",
        'Subject: x\nContent-Type: multipart/signed; protocol="application/pkcs7-signature"; boundary=s\n\n'
        "--s\nContent-Type: multipart/alternative"
        + BOUNDARY
        + TEXT
        + "--b\nContent-Type: text/html\n\n<p>Hi.\n--b--\n\n"
        "--s\nContent-Type: application/pkcs7-signature; name=smime.p7s\n\nx\n--s--\n",
        text="Hi.",
        html="<p>Hi.",
        names=["smime.p7s"],
    ),
    case(
        "encrypted with OpenPGP",
        'Subject: ...\nContent-Type: multipart/encrypted; protocol="application/pgp-encrypted"'
        + BOUNDARY
        + "--b\nContent-Type: application/pgp-encrypted\n\nVersion: 1\n--b\nContent-Type: application/octet-stream; "
        "name=encrypted.asc\n\n-----BEGIN PGP MESSAGE-----\n\nhQ==\n-----END PGP MESSAGE-----\n--b--\n",
        text=None,
        snippet="",
        names=["attachment-1", "encrypted.asc"],
    ),
    case(
        "encrypted with S/MIME",
        "Subject: x\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n"
        "Content-Disposition: attachment; filename=smime.p7m\nContent-Transfer-Encoding: base64\n\nMIIB\n",
        text=None,
        listed=[("smime.p7m", "application/pkcs7-mime", 3, None, "attachment")],
    ),
    case(
        "OpenPGP amid the text",
        "Subject: x\n\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n- -- dashes\nHi.\n-----BEGIN PGP SIGNATURE-----\n\niQ==\n",
        text="-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n- -- dashes\nHi.\n-----BEGIN PGP SIGNATURE-----\n\niQ==",
    ),
    case(
        "a part of a message",  # RFC 2046 5.2.2
        'Subject: x\nContent-Type: message/partial; id="a@b"; number=1; total=2\n\nSubject: Inner\n\nfirst half\n',
        text=None,
        types=["message/partial"],
    ),
    case(
        "a body that lies elsewhere",  # RFC 2046 5.2.3
        "Subject: x\nContent-Type: multipart/mixed"
        + BOUNDARY
        + TEXT
        + '--b\nContent-Type: message/external-body; access-type=URL;\n URL*0="ftp://";\n URL*1="a.example/x.tar"\n\n'
        "Content-type: application/x-tar\n\n--b--\n",
        text="Hi.",
        types=["message/external-body"],
    ),
    case(
        "an invitation alone",
        'Subject: Lunch\nContent-Type: text/calendar; method=REQUEST; charset="utf-8"\n\nBEGIN:VCALENDAR\nEND:VCALENDAR\n',
        text=None,
        names=["attachment-1.ics"],
    ),
    case(
        "an invitation by a calendar",
        "Subject: Lunch\nContent-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: multipart/alternative"
        + BOUNDARY
        + TEXT
        + "--b\nContent-Type: text/html\n\n<p>Hi.\n--b\nContent-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\n"
        '--b--\n--m\nContent-Type: application/ics; name="invite.ics"\nContent-Disposition: attachment; filename="invite.ics"\n'
        "Content-Transfer-Encoding: base64\n\nQkVHSU4=\n--m--\n",
        text="Hi.",
        html="<p>Hi.",
        names=["attachment-1.3.ics", "invite.ics"],
    ),
    case(
        "winmail.dat",
        "Subject: x\nContent-Type: multipart/mixed"
        + BOUNDARY
        + TEXT
        + '--b\nContent-Type: application/ms-tnef; name="winmail.dat"\n'
        'Content-Disposition: attachment; filename="winmail.dat"\nContent-Transfer-Encoding: base64\n\neJ8+Ig==\n--b--\n',
        text="Hi.",
        listed=[("winmail.dat", "application/ms-tnef", 4, None, "attachment")],
    ),
    case(
        "a uuencoded file in the text",
        'Subject: x\n\nHi.\n\nbegin 644 a.txt\n"2&D\n`\nend\n',
        text='Hi.\n\nbegin 644 a.txt\n"2&D\n`\nend',
        listed=[],
    ),
    case(
        "a resource fork",  # RFC 1740
        "Subject: x\nContent-Type: multipart/mixed; boundary=m\n\n--m\n\nHi.\n--m\nContent-Type: multipart/appledouble"
        + BOUNDARY
        + "--b\nContent-Type: application/applefile; name=a.jpg\nContent-Transfer-Encoding: base64\n\nAAUWBw==\n"
        "--b\nContent-Type: image/jpeg; name=a.jpg\nContent-Transfer-Encoding: base64\n\n/9j/\n--b--\n--m--\n",
        text="Hi.",
        types=["application/applefile", "image/jpeg"],
        sizes=[4, 3],
    ),
    case(
        "a voice message",
        "Subject: Voice\nContent-Type: multipart/voice-message; version=2.0"
        + BOUNDARY
        + "--b\nContent-Type: audio/32KADPCM\nContent-Transfer-Encoding: base64\n"
        "Content-Disposition: inline; voice=Voice-Message\n\nAAAA\n--b--\n",
        text=None,
        listed=[("attachment-1", "audio/32kadpcm", 3, None, "inline")],
    ),
    case(
        "a list's footer beside an alternative",
        "Subject: [l] x\nContent-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: multipart/alternative"
        + BOUNDARY
        + TEXT
        + "--b\nContent-Type: text/html\n\n<p>Hi.\n--b--\n--m\nContent-Type: text/plain\nContent-Disposition: inline\n\n"
        "____\nlist footer\n--m--\n",
        text="Hi.\n\n____\nlist footer",
        html="<p>Hi.\n<pre>____\nlist footer</pre>",
        listed=[],
    ),
    case(
        "a disposition that nobody knows",
        "Subject: x\nContent-Type: image/png\nContent-Disposition: x-new; filename=a.png\n\nx",
        listed=[("a.png", "image/png", 1, None, "attachment")],
    ),
    case(
        "types in upper case",
        "Subject: x\nContent-Type: MULTIPART/MIXED" + BOUNDARY + "--b\nContent-Type: TEXT/HTML\n\n<p>x\n--b\n"
        "Content-Type: IMAGE/PNG\nContent-Disposition: INLINE\n\nx\n--b--\n",
        html="<p>x",
        listed=[("attachment-2.png", "image/png", 1, None, "inline")],
    ),
]
