package dashboard

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// credentialsEnd is when the first of the credentials that a request shows ends: its client
// certificate, or the JSON Web Token in its header. Zero: they do not say. Only for requests that
// were authenticated: signatures are not looked at.
func credentialsEnd(r *http.Request) time.Time {
	var end time.Time
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		end = r.TLS.PeerCertificates[0].NotAfter
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return end
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return end
	}
	var claims struct {
		Expires int64 `json:"exp"` // seconds since 1970
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Expires == 0 {
		return end
	}
	if at := time.Unix(claims.Expires, 0); end.IsZero() || at.Before(end) {
		end = at
	}
	return end
}
