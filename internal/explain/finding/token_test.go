package finding

import (
	"slices"
	"testing"
)

// A Secret for a ServiceAccount's token says why it gets none.
func TestTokensThatNobodyWrites(t *testing.T) {
	const account = `
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: shop, uid: u1, creationTimestamp: ` +
		`"2026-05-01T11:00:00Z"}}`
	secret := func(annotations, made, data string) string {
		return `{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: t, ` +
			`namespace: shop, creationTimestamp: "` + made + `", annotations: {` + annotations + `}}, data: {` + data +
			`}}`
	}
	const old, robot, token = "2026-05-01T11:00:00Z", "kubernetes.io/service-account.name: robot", `token: ""`
	for _, c := range []struct{ name, cluster, want string }{
		{"another account's", secret(robot+", kubernetes.io/service-account.uid: u0", old, "") + account,
			"TokenForAnother"},
		{"another account's, with a token",
			secret(robot+", kubernetes.io/service-account.uid: u0", old, token) + account, "TokenForAnother"},
		{"nobody writes it", secret(robot, old, "") + account, "TokenNotIssued"},
		{"just made", secret(robot, "2026-05-01T11:59:59Z", "") + account, ""},
		{"as it should be", secret(robot+", kubernetes.io/service-account.uid: u1", old, token) + account, ""},
		{"no account", "read: ServiceAccount\n" + secret(robot, old, ""), "ReferenceMissing"},
		{"accounts could not be read", secret(robot, old, ""), ""},
	} {
		var got []string
		for _, f := range Of(clusterOf(t, c.cluster), Object{"Secret", "shop", "t"}) {
			got = append(got, f.Code)
			if f.Code == "TokenForAnother" && (f.Value != "u0" || f.Want != "u1" || len(f.Remedies) == 0) {
				t.Errorf("%s: got %+v, want both uids and a remedy", c.name, f)
			}
		}
		want := slices.DeleteFunc([]string{c.want}, func(s string) bool { return s == "" })
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
	}
}
