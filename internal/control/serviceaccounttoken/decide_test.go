package serviceaccounttoken

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What a Secret lacks: a token that is there stays, another authority's certificate does not.
func TestWhatASecretLacks(t *testing.T) {
	full := func() map[string][]byte {
		return map[string][]byte{"token": []byte("t"), "ca.crt": []byte("ca"), "namespace": []byte("elsewhere")}
	}
	for name, c := range map[string]struct {
		change func(map[string][]byte)
		ca     string
		want   Needs
	}{
		"full":               {func(map[string][]byte) {}, "ca", Needs{}},
		"no token":           {func(d map[string][]byte) { delete(d, "token") }, "ca", Needs{Token: true}},
		"empty token":        {func(d map[string][]byte) { d["token"] = nil }, "ca", Needs{Token: true}},
		"no namespace":       {func(d map[string][]byte) { delete(d, "namespace") }, "ca", Needs{Namespace: true}},
		"no certificate":     {func(d map[string][]byte) { delete(d, "ca.crt") }, "ca", Needs{RootCA: true}},
		"another authority":  {func(map[string][]byte) {}, "new", Needs{RootCA: true}},
		"no authority known": {func(d map[string][]byte) { delete(d, "ca.crt") }, "", Needs{}},
	} {
		data := full()
		c.change(data)
		if got := NeedsOf(&corev1.Secret{Data: data}, []byte(c.ca)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func tokenOf(name, uid string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: "s-uid",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: name}},
		Type: corev1.SecretTypeServiceAccountToken}
	if uid != "" {
		s.Annotations[corev1.ServiceAccountUIDKey] = uid
	}
	return s
}

func TestSecretOfAServiceAccount(t *testing.T) {
	opaque := tokenOf("sa", "1")
	opaque.Type = corev1.SecretTypeOpaque
	for name, c := range map[string]struct {
		secret *corev1.Secret
		want   bool
	}{
		"name and uid": {tokenOf("sa", "1"), true}, "name alone": {tokenOf("sa", ""), true},
		"another uid": {tokenOf("sa", "2"), false}, "another name": {tokenOf("x", "1"), false},
		"another type": {opaque, false},
	} {
		if got := IsOf(c.secret, "sa", "1"); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// A generated token that nobody has used for a period is marked, and after another period deleted;
// whatever may still be needed stays.
func TestCleanUp(t *testing.T) {
	const period = 10 * 24 * time.Hour
	now := time.Date(2026, 6, 30, 12, 0, 0, 0, time.UTC)
	since := now.Add(-30 * 24 * time.Hour)
	label := func(name, day string) func(*Usage) { return func(u *Usage) { u.Secret.Labels[name] = day } }
	for name, c := range map[string]struct {
		change func(*Usage)
		since  time.Time
		want   CleanUp
	}{
		"never used":              {func(*Usage) {}, since, MarkInvalid},
		"used long ago":           {label(LastUsedLabel, "2026-06-19"), since, MarkInvalid},
		"used within the period":  {label(LastUsedLabel, "2026-06-20"), since, Keep},
		"used, nobody knows when": {label(LastUsedLabel, "yesterday"), since, Keep},
		"marked lately":           {label(InvalidSinceLabel, "2026-06-20"), since, Keep},
		"marked long ago":         {label(InvalidSinceLabel, "2026-06-19"), since, Delete},
		"marked with no day":      {label(InvalidSinceLabel, "x"), since, MarkInvalid},
		"not watched for so long": {func(*Usage) {}, now.Add(-period + time.Second), Keep},
		"young": {func(u *Usage) {
			u.Secret.CreationTimestamp = metav1.NewTime(now.Add(-period))
		}, since, Keep},
		"being deleted": {func(u *Usage) {
			u.Secret.DeletionTimestamp = &metav1.Time{Time: now}
		}, since, Keep},
		"another type": {func(u *Usage) { u.Secret.Type = corev1.SecretTypeOpaque }, since, Keep},
		"no account":   {func(u *Usage) { u.Account = nil }, since, Keep},
		"made by hand": {func(u *Usage) { u.Account.Secrets = nil }, since, Keep},
		"a Pod has it": {func(u *Usage) {
			u.MountedBy = func(s string) bool { return s == "t" }
		}, since, Keep},
	} {
		u := Usage{Secret: tokenOf("sa", "1"), MountedBy: func(string) bool { return false },
			Account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa", UID: types.UID("1")},
				Secrets: []corev1.ObjectReference{{Name: "t"}}}}
		u.Secret.Labels = map[string]string{}
		c.change(&u)
		if got := CleanUpOf(u, c.since, now, period); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

// The day on which the API server began to write uses down is not a whole one.
func TestTrackedSince(t *testing.T) {
	got, err := TrackedSince(&corev1.ConfigMap{Data: map[string]string{"since": "2026-02-28"}})
	if want := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC); err != nil || !got.Equal(want) {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if _, err := TrackedSince(&corev1.ConfigMap{}); err == nil {
		t.Error("got no error for a ConfigMap without day")
	}
}

// Keys survive names that no account can have.
func TestKeys(t *testing.T) {
	s := tokenOf("a/b/c", "7")
	got, err := parseKey(keyOf(s).String())
	if want := (syncKey{Namespace: "ns", Secret: "t", Account: "a/b/c", UID: "s-uid", AccountUID: "7"}); err != nil ||
		got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseKey("ns/t"); err == nil {
		t.Error("got no error for a key that is none")
	}
}
