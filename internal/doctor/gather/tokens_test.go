package gather

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/internal/doctor"
)

// The doctor names each Secret whose ServiceAccount is not there or another one, or for which
// nobody writes a token, with the reason and a remedy, and no other Secret.
func TestSecretsWithoutTokenAreNamed(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	meta := func(name string, age time.Duration, annotations ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age)),
			Annotations: map[string]string{}}
		for i, key := range []string{v1.ServiceAccountNameKey, v1.ServiceAccountUIDKey}[:len(annotations)] {
			m.Annotations[key] = annotations[i]
		}
		return m
	}
	secret := func(m metav1.ObjectMeta, token string) *v1.Secret {
		s := &v1.Secret{ObjectMeta: m, Type: v1.SecretTypeServiceAccountToken,
			Data: map[string][]byte{"namespace": nil}}
		if token != "" {
			s.Data[v1.ServiceAccountTokenKey] = []byte(token)
		}
		return s
	}
	account := &v1.ServiceAccount{ObjectMeta: meta("robot", time.Hour)}
	account.UID = "u1"
	opaque := secret(meta("opaque", time.Hour, "robot", "u0"), "")
	opaque.Type = v1.SecretTypeOpaque
	client := fake.NewClientset(account, opaque, secret(meta("good", time.Hour, "robot", "u1"), "secret-value"),
		secret(meta("young", time.Second, "robot"), ""), secret(meta("idle", time.Hour, "robot"), ""),
		secret(meta("typo", time.Hour, "robbot"), ""), secret(meta("old", time.Hour, "robot", "u0"), "secret-value"),
		secret(meta("other", time.Hour, "robot", "u0"), ""))
	facts := doctor.Facts{Now: now, Tokens: (&Gatherer{}).Tokens(context.Background(), client, now)}
	got := map[string]doctor.Finding{}
	for _, f := range doctor.Examine(facts) {
		if f.Check == "tokens" {
			got[f.About] = f
		}
	}
	for name, want := range map[string][2]string{
		"idle":  {"nobody has written one", "--service-account-private-key-file"},
		"typo":  {"robbot", ""},
		"old":   {"its token is refused", "make the Secret anew"},
		"other": {"it gets none", "kubectl -n shop annotate secret other kubernetes.io/service-account.uid-"},
	} {
		f := got["shop/"+name]
		if f.Level != doctor.Problem || !strings.Contains(f.Text, want[0]) || !strings.Contains(f.Fix, want[1]) {
			t.Errorf("%s: got %+v, want a problem with %q and the remedy %q", name, f, want[0], want[1])
		}
	}
	if len(got) != 4 {
		t.Errorf("got %d Secrets named, want 4: %+v", len(got), got)
	}
	client = fake.NewClientset(account)
	facts.Tokens = (&Gatherer{}).Tokens(context.Background(), client, now)
	for _, f := range doctor.Examine(facts) {
		if f.Check == "tokens" && (f.Level != doctor.OK || f.Text == "") {
			t.Errorf("got %+v of a cluster without such Secrets, want a line that all is well", f)
		}
	}
	if facts.Tokens == nil {
		t.Error("got nil, which means that nothing was read")
	}
}
