package podcertificate

import (
	"cmp"
	"fmt"
	"time"
)

const (
	// retryDelay is how soon a refresh is looked at once more while the old certificate is good.
	retryDelay = time.Minute
	// retryDelayAfterDenial is how long a signer is left alone that has refused a refresh.
	retryDelayAfterDenial = 10 * time.Minute
	// requestTimeout is after how long a request that the API server does not know any more is made
	// anew; one that nobody answers is cleaned up then.
	requestTimeout = 15 * time.Minute
)

// credential is a key and what a signer vouched for it.
type credential struct {
	key, chain       []byte // PEM
	refresh, expires time.Time
}

// request is one that no signer has answered yet.
type request struct {
	name      string
	key       []byte // PEM
	createdAt time.Time
	seen      bool // the API server has told of it
}

// state is what is known of one certificate of a Pod.
type state struct {
	credential *credential
	request    *request
	refused    string    // the signer's last no
	retryAfter time.Time // before which a refresh is not asked for again
}

// step is what to do now.
type step struct {
	create     bool
	useCurrent bool      // the files are those of the credential that is held
	checkAt    time.Time // when to look again though nobody says anything
	err        string    // why there is no file yet
}

// decide decides about a certificate (KEP-4317): a first one is waited for, a later one is asked
// for in time while the old one is good. A signer's no to the first is final: what was asked for
// would not change.
func decide(s state, signer, namespace string, now time.Time) step {
	waiting := ""
	if s.request != nil {
		waiting = fmt.Sprintf("waiting for signer %s to answer PodCertificateRequest %s/%s, made %s ago", signer,
			namespace, s.request.name, now.Sub(s.request.createdAt).Round(time.Second))
	}
	deleted := s.request != nil && !s.request.seen && now.Sub(s.request.createdAt) > requestTimeout
	switch {
	case s.credential == nil && s.request == nil && s.refused != "":
		return step{err: s.refused}
	case s.credential == nil && s.request != nil && !deleted:
		return step{err: waiting}
	case s.credential == nil:
		return step{create: true}
	case now.Before(s.credential.refresh):
		return step{useCurrent: true, checkAt: s.credential.refresh}
	}
	out := step{useCurrent: now.Before(s.credential.expires),
		create: (s.request == nil || deleted) && !now.Before(s.retryAfter), checkAt: now.Add(retryDelay)}
	if !out.useCurrent {
		out.err = fmt.Sprintf("the certificate ended at %s: %s", s.credential.expires.UTC().Format(time.RFC3339),
			cmp.Or(waiting, s.refused, "a new one is asked for"))
	}
	return out
}
