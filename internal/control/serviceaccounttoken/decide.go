package serviceaccounttoken

import (
	"bytes"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels of a Secret with a token. Values are days in UTC, as 2006-01-02. The API server writes the
// first at each use, and refuses a token whose Secret has the second.
const (
	LastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	InvalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

// DefaultCleanUpPeriod is how long a generated token must not have been used before it is marked
// invalid, and after that before it is deleted: upstream's default.
const DefaultCleanUpPeriod = 365 * 24 * time.Hour

// Needs are the parts that a Secret lacks.
type Needs struct{ RootCA, Namespace, Token bool }

// NeedsOf returns what a Secret of an account lacks. A token that it has stays, whatever it says;
// another root certificate is replaced. rootCA may be empty: then none is written.
func NeedsOf(s *corev1.Secret, rootCA []byte) Needs {
	return Needs{
		RootCA:    len(rootCA) > 0 && !bytes.Equal(s.Data[corev1.ServiceAccountRootCAKey], rootCA),
		Namespace: len(s.Data[corev1.ServiceAccountNamespaceKey]) == 0,
		Token:     len(s.Data[corev1.ServiceAccountTokenKey]) == 0,
	}
}

// IsOf tells whether a Secret holds a token of the account of this name and uid. One without the
// annotation of the uid belongs to whoever has the name.
func IsOf(s *corev1.Secret, account string, uid types.UID) bool {
	said := s.Annotations[corev1.ServiceAccountUIDKey]
	return s.Type == corev1.SecretTypeServiceAccountToken && s.Annotations[corev1.ServiceAccountNameKey] == account &&
		(said == "" || said == string(uid))
}

// withoutReference returns an account's list of Secrets without one; false if it is not there.
func withoutReference(refs []corev1.ObjectReference, secret string) ([]corev1.ObjectReference, bool) {
	out := slices.DeleteFunc(slices.Clone(refs), func(r corev1.ObjectReference) bool { return r.Name == secret })
	return out, len(out) < len(refs)
}

// CleanUp is what is to be done about a token that nobody uses.
type CleanUp int

// Steps of a clean-up: a token is refused for a period before its Secret goes, so that who needs it
// has the time to take the label off.
const (
	Keep CleanUp = iota
	MarkInvalid
	Delete
)

// Usage is what is known about a Secret with a token.
type Usage struct {
	Secret    *corev1.Secret
	Account   *corev1.ServiceAccount // nil: not there, or another one of its name
	MountedBy func(secret string) bool
}

// CleanUpOf decides about one Secret. since is the first day on which uses were written to labels
// for the whole day.
func CleanUpOf(u Usage, since, now time.Time, period time.Duration) CleanUp {
	now = now.UTC()
	s, limit := u.Secret, now.Add(-period)
	switch {
	case now.Before(since.Add(period)), // a use may not have been seen
		s.Type != corev1.SecretTypeServiceAccountToken || s.DeletionTimestamp != nil,
		!s.CreationTimestamp.Time.Before(limit),
		recent(s, LastUsedLabel, limit),
		u.Account == nil || !refers(u.Account, s.Name), // made by hand
		u.MountedBy(s.Name):
		return Keep
	}
	marked := s.Labels[InvalidSinceLabel]
	if _, err := time.Parse(time.DateOnly, marked); err != nil {
		return MarkInvalid
	}
	if marked >= limit.Format(time.DateOnly) {
		return Keep
	}
	return Delete
}

// recent tells that a label has a day on or after limit, or is no day at all.
func recent(s *corev1.Secret, label string, limit time.Time) bool {
	day, ok := s.Labels[label]
	if !ok {
		return false
	}
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return true
	}
	return day >= limit.Format(time.DateOnly)
}

func refers(account *corev1.ServiceAccount, secret string) bool {
	_, found := withoutReference(account.Secrets, secret)
	return found
}

// TrackedSince reads the day since when the API server writes uses down from its ConfigMap, and
// returns the next one; an error if there is none.
func TrackedSince(m *corev1.ConfigMap) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, m.Data["since"])
	return day.AddDate(0, 0, 1), err
}
