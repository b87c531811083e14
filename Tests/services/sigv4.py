"""AWS signature version 4 for S3, with the standard library: to sign a request, and to sign one again that was changed."""

import datetime
import hashlib
import hmac
import urllib.parse

UNSIGNED = "UNSIGNED-PAYLOAD"


def quoted(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def canonical_query(query):
    pairs = [pair.partition("=")[::2] for pair in query.split("&") if pair]
    decoded = [(urllib.parse.unquote(name), urllib.parse.unquote(value)) for name, value in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted((quoted(n), quoted(v)) for n, v in decoded))


def signature(secret, scope, moment, method, path, query, headers, names, payload):
    """`headers` by lower-case name; `names` are those that are signed; `path` as it is in the request line."""
    canonical = "\n".join([
        method, quoted(urllib.parse.unquote(path), "/"), canonical_query(query),
        *[f"{name}:{' '.join(headers[name].split())}" for name in names], "", ";".join(names), payload])
    text = "\n".join([
        "AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def authorization(keys, region, method, path, query, headers, payload=UNSIGNED):
    """Adds what a signed request has to have to `headers`, which has `host` already."""
    moment = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    headers["x-amz-date"] = moment
    headers["x-amz-content-sha256"] = payload
    names = sorted(headers)
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    signed = signature(keys[1], scope, moment, method, path, query, headers, names, payload)
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys[0]}/{scope}, SignedHeaders={';'.join(names)}, Signature={signed}")


def signed_again(keys, method, path, query, headers, without):
    """The authorization of a request as it would be without a header. Of the old one everything but the
    signature and that name is kept; None where that cannot be done."""
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    if scheme != "AWS4-HMAC-SHA256" or not {"Credential", "SignedHeaders"} <= fields.keys():
        return None
    payload = headers.get("x-amz-content-sha256", UNSIGNED)
    if payload.startswith("STREAMING-"):
        # Each piece of the body is signed with what stands before it.
        return None
    names = [name for name in fields["SignedHeaders"].split(";") if name != without]
    access, _, scope = fields["Credential"].partition("/")
    if access != keys[0]:
        return None
    signed = signature(keys[1], scope, headers.get("x-amz-date", ""), method, path, query, headers, names, payload)
    return f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={';'.join(names)}, Signature={signed}"
