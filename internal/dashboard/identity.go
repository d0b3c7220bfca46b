package dashboard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// Identity is who looks at the page.
type Identity struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
	// As is whom the person's kubeconfig impersonates; the API server decides whether that is
	// allowed.
	As rest.ImpersonationConfig `json:"as,omitzero"`
	// Namespace is that of the person's kubeconfig.
	Namespace string `json:"namespace,omitempty"`
	// Until is when the credentials that the person showed end, or the session; zero: nobody
	// knows.
	Until time.Time `json:"until,omitzero"`
}

// User is the identity as the API server knows it, without impersonation.
func (i Identity) User() user.Info {
	return &user.DefaultInfo{Name: i.Name, UID: i.UID, Groups: i.Groups, Extra: i.Extra}
}

// How long a one-time token and a session last.
const (
	tokenLife   = 5 * time.Minute
	sessionLife = 12 * time.Hour
)

// tokens are the one-time tokens that were given out and not used. Safe for concurrent use.
type tokens struct {
	mu   sync.Mutex
	open map[string]issued
}

type issued struct {
	who   Identity
	until time.Time
}

// issue makes a token that can be exchanged once, within tokenLife of now.
func (t *tokens) issue(who Identity, now time.Time) string {
	text := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[string]issued{}
	}
	for old, e := range t.open {
		if now.After(e.until) {
			delete(t.open, old)
		}
	}
	t.open[text] = issued{who, now.Add(tokenLife)}
	return text
}

// take exchanges a token; false when it is unknown, used or too old.
func (t *tokens) take(text string, now time.Time) (Identity, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.open[text]
	delete(t.open, text)
	return e.who, ok && !now.After(e.until)
}

// KeySize is the length of the key that seals sessions, in bytes.
const KeySize = 32

// sealed is what a session cookie holds.
type sealed struct {
	ID    string    `json:"id"` // by which it is ended
	Who   Identity  `json:"who"`
	Until time.Time `json:"until"`
}

// sessionEnd is when a session that begins now ends: after sessionLife, but not later than the
// credentials.
func sessionEnd(who Identity, now time.Time) time.Time {
	if end := now.Add(sessionLife); who.Until.IsZero() || end.Before(who.Until) {
		return end
	}
	return who.Until
}

// seal encrypts and authenticates a session (AES-256-GCM); it is valid until sessionEnd, over
// restarts of the server that keeps the key.
func seal(key []byte, who Identity, now time.Time) (string, error) {
	raw, err := json.Marshal(sealed{rand.Text(), who, sessionEnd(who, now)})
	if err != nil {
		return "", fmt.Errorf("session: %w", err)
	}
	aead, err := sealer(key)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, raw, nil)), nil
}

var errNoSession = errors.New("no session: run `gantry dashboard` and open the address that it prints")

// open is the inverse of seal, with Until being the session's end; errNoSession when the session is
// forged, of another key, or over.
func open(key []byte, cookie string, now time.Time) (sealed, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return sealed{}, errNoSession
	}
	aead, err := sealer(key)
	if err != nil {
		return sealed{}, err
	}
	var s sealed
	if raw, err = aead.Open(nil, nil, raw, nil); err != nil || json.Unmarshal(raw, &s) != nil || now.After(s.Until) {
		return sealed{}, errNoSession
	}
	s.Who.Until = s.Until
	return s, nil
}

func sealer(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("session key: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}
