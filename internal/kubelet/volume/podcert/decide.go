package podcert

import (
	"cmp"
	"fmt"
	"time"
)

const (
	// again is how soon a refresh is looked at once more while the old certificate is good.
	again = time.Minute
	// afterRefusal is how long a signer is left alone that has refused a refresh.
	afterRefusal = 10 * time.Minute
	// lost is after how long a request that the API server does not know any more is made anew; one that nobody answers is cleaned up then.
	lost = 15 * time.Minute
)

// credential is a key and what a signer vouched for it.
type credential struct {
	key, chain       []byte // PEM
	refresh, expires time.Time
}

// request is one that no signer has answered yet.
type request struct {
	name string
	key  []byte // PEM
	made time.Time
	seen bool // the API server has told of it
}

// state is what is known of one certificate of a Pod.
type state struct {
	held    *credential
	asked   *request
	refused string    // the signer's last no
	notYet  time.Time // before which a refresh is not asked for again
}

// step is what to do now.
type step struct {
	ask bool
	use bool      // the files are those of the credential that is held
	at  time.Time // when to look again though nobody says anything
	err string    // why there is no file yet
}

// next decides about a certificate (KEP-4317): a first one is waited for, a later one is asked for in time while the old one is good. A signer's no to the
// first is final: what was asked for would not change.
func next(s state, signer, namespace string, now time.Time) step {
	waiting := ""
	if s.asked != nil {
		waiting = fmt.Sprintf("waiting for signer %s to answer PodCertificateRequest %s/%s, made %s ago", signer, namespace, s.asked.name, now.Sub(s.asked.made).Round(time.Second))
	}
	gone := s.asked != nil && !s.asked.seen && now.Sub(s.asked.made) > lost
	switch {
	case s.held == nil && s.asked == nil && s.refused != "":
		return step{err: s.refused}
	case s.held == nil && s.asked != nil && !gone:
		return step{err: waiting}
	case s.held == nil:
		return step{ask: true}
	case now.Before(s.held.refresh):
		return step{use: true, at: s.held.refresh}
	}
	out := step{use: now.Before(s.held.expires), ask: (s.asked == nil || gone) && !now.Before(s.notYet), at: now.Add(again)}
	if !out.use {
		out.err = fmt.Sprintf("the certificate ended at %s: %s", s.held.expires.UTC().Format(time.RFC3339), cmp.Or(waiting, s.refused, "a new one is asked for"))
	}
	return out
}
