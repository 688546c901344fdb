"""The certificate of the appliance's own HTTPS listener. TLS to other servers is in `remote.net.connect`.

files      certificate and key on disk: read and replaced as a pair, loaded into TLS
generate   creates a self-signed certificate
inspect    the facts and warnings of a certificate, to show to people
validate   checks an operator's certificate before it is served
"""
