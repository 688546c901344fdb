"""The certificate of our own HTTPS listener. TLS towards other servers is in `remote.net.connect`.

files      certificate and key on the disk: read and replaced as a pair, loaded into TLS
generate   makes a self-signed certificate
inspect    the facts and warnings of a certificate, for people to see
validate   checks a certificate of the operator's before it is served
"""
