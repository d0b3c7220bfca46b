package token

import (
	"crypto"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Paths of the documents by which others check our tokens (OpenID Connect discovery).
const (
	ConfigPath = "/.well-known/openid-configuration"
	JWKSPath   = "/openid/v1/jwks"
)

// OpenIDMetadata are the discovery documents of an issuer.
type OpenIDMetadata struct{ config, keys []byte }

// NewOpenIDMetadata writes the documents. jwksURI is where JWKSPath can be reached from outside;
// empty means the issuer's own address.
func NewOpenIDMetadata(issuer, jwksURI string, pubs []crypto.PublicKey) (*OpenIDMetadata, error) {
	if jwksURI == "" {
		u, err := url.Parse(issuer)
		if err != nil {
			return nil, fmt.Errorf("service-account issuer %q: %w", issuer, err)
		}
		u.Path = JWKSPath
		jwksURI = u.String()
	}
	algs, set := []string{}, jose.JSONWebKeySet{}
	for _, pub := range pubs {
		k, err := newKey(pub)
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Key, KeyID: k.ID, Algorithm: string(k.Alg), Use: "sig"})
		if !slices.Contains(algs, string(k.Alg)) {
			algs = append(algs, string(k.Alg))
		}
	}
	config, err := json.Marshal(struct {
		Issuer    string   `json:"issuer"`
		JWKSURI   string   `json:"jwks_uri"`
		Responses []string `json:"response_types_supported"`
		Subjects  []string `json:"subject_types_supported"`
		Algs      []string `json:"id_token_signing_alg_values_supported"`
	}{issuer, jwksURI, []string{"id_token"}, []string{"public"}, algs})
	if err != nil {
		return nil, err
	}
	keys, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	return &OpenIDMetadata{config, keys}, nil
}

// Config serves the configuration document.
func (d *OpenIDMetadata) Config(w http.ResponseWriter, r *http.Request) {
	serveDocument(w, r, "application/json", d.config)
}

// Keys serves the key set.
func (d *OpenIDMetadata) Keys(w http.ResponseWriter, r *http.Request) {
	serveDocument(w, r, "application/jwk-set+json", d.keys)
}

func serveDocument(w http.ResponseWriter, r *http.Request, kind string, body []byte) {
	switch {
	case r.Method != http.MethodGet:
		refuse(w, http.StatusMethodNotAllowed, "")
		return
	case !accepts(r.Header.Get("Accept"), kind):
		refuse(w, http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+kind)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(body)
}

// accepts reports whether an Accept header names a type, or any; application/* names none, as
// upstream has it.
func accepts(header, kind string) bool {
	if header == "" {
		return true
	}
	for part := range strings.SplitSeq(header, ",") {
		name, _, _ := strings.Cut(part, ";")
		if name = strings.TrimSpace(name); name == "*/*" || name == kind {
			return true
		}
	}
	return false
}

// refuse answers with a Status.
func refuse(w http.ResponseWriter, code int, message string) {
	status := apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status)
}
