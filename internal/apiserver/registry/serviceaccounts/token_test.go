package serviceaccounts

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/auth/token"
)

const api = "https://api"

// fakeStorage is a store of one object per name.
type fakeStorage struct {
	rest.StandardStorage
	resource string
	objects  map[string]runtime.Object
}

func (s fakeStorage) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if o, ok := s.objects[name]; ok {
		return o, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource(s.resource), name)
}

// fakeIssuer records the last request.
type fakeIssuer struct{ lastRequest token.TokenRequest }

func (p *fakeIssuer) Issue(w token.TokenRequest, _ time.Time) (string, error) {
	p.lastRequest = w
	return "signed", nil
}

func endpoint(p *fakeIssuer) *TokenREST {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-1"}
	}
	objects := map[string]map[string]runtime.Object{
		"serviceaccounts": {"sa": &corev1.ServiceAccount{ObjectMeta: meta("sa")}},
		"pods": {
			"p": &corev1.Pod{ObjectMeta: meta("p"), Spec: corev1.PodSpec{ServiceAccountName: "sa",
				NodeName: "gone"}},
			"other": &corev1.Pod{ObjectMeta: meta("other"), Spec: corev1.PodSpec{ServiceAccountName: "x"}},
		},
		"secrets": {"s": &corev1.Secret{ObjectMeta: meta("s")}},
		"nodes":   {"n": &corev1.Node{ObjectMeta: meta("n")}},
	}
	return NewTokenREST(Deps{
		Lookup: func(_, resource string) rest.StandardStorage {
			return fakeStorage{resource: resource, objects: objects[resource]}
		},
		Issuer:    p,
		Audiences: []string{api},
		Now:       func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
	})
}

func TestTokenRequests(t *testing.T) {
	life := func(n int64) *int64 { return &n }
	to := func(kind, name, uid string) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(uid)}
	}
	for name, c := range map[string]struct {
		account string
		spec    authenticationv1.TokenRequestSpec
		meta    metav1.ObjectMeta
		want    string // error
		life    time.Duration
		warn    time.Duration
		seconds int64 // answered
	}{
		"plain": {life: time.Hour, seconds: 3600},
		"ten minutes": {spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: life(600)},
			life: 10 * time.Minute, seconds: 600},
		"too short": {spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: life(599)},
			want: `TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may ` +
				`not specify a duration less than 10 minutes`},
		"too long": {spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: life(4294967297)},
			want: `TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: ` +
				`4294967297: may not specify a duration larger than 2^32 seconds`},
		"a Pod's volume": {spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: life(3607),
			BoundObjectRef: to("Pod", "p", "")}, life: extendedLifetime, warn: 3607 * time.Second, seconds: 3607},
		"3607 without Pod": {spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: life(3607)},
			life: 3607 * time.Second, seconds: 3607},
		"3607 for others too": {spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: life(3607),
			BoundObjectRef: to("Pod", "p", ""), Audiences: []string{api, "vault"}}, life: 3607 * time.Second,
			seconds: 3607},
		"absent Pod": {spec: authenticationv1.TokenRequestSpec{BoundObjectRef: to("Pod", "absent", "")},
			want: `pods "absent" not found`},
		"Pod of another account": {spec: authenticationv1.TokenRequestSpec{BoundObjectRef: to("Pod", "other", "")},
			want: `cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name.`},
		"another life of the name": {spec: authenticationv1.TokenRequestSpec{BoundObjectRef: to("Pod", "p", "old")},
			want: `Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (old) does not ` +
				`match the UID in record. The object might have been deleted and then recreated`},
		"node": {spec: authenticationv1.TokenRequestSpec{BoundObjectRef: to("Node", "n", "")},
			life: time.Hour, seconds: 3600},
		"secret": {spec: authenticationv1.TokenRequestSpec{BoundObjectRef: to("Secret", "s", "")},
			life: time.Hour, seconds: 3600},
		"config map": {spec: authenticationv1.TokenRequestSpec{BoundObjectRef: to("ConfigMap", "x", "")},
			want: "cannot bind token to object of type /v1, Kind=ConfigMap"},
		"attestations without a webhook": {spec: authenticationv1.TokenRequestSpec{
			Attestations: map[string]authenticationv1.AttestationValue{"a": {"b"}}},
			want: `TokenRequest.authentication.k8s.io "" is invalid: spec.attestations: Invalid value: {"a":["b"]}: ` +
				`attestations may only be specified with a webhook bound object reference`},
		"a webhook": {spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "MutatingWebhookConfiguration",
				APIVersion: "admissionregistration.k8s.io/v1", Name: "a"},
			Attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"b"}}},
			want: "cannot bind token to object of type admissionregistration.k8s.io/v1, " +
				"Kind=MutatingWebhookConfiguration (feature gate APIServerWebhookAuthenticationToken is disabled)"},
		"absent account":    {account: "absent", want: `serviceaccounts "absent" not found`},
		"its account's UID": {meta: metav1.ObjectMeta{UID: "uid-1"}, life: time.Hour, seconds: 3600},
		"another account's UID": {meta: metav1.ObjectMeta{UID: "old"},
			want: `Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "sa": the UID in the token ` +
				`request (old) does not match the UID of the service account (uid-1)`},
		"other namespace": {meta: metav1.ObjectMeta{Namespace: "other"},
			want: `TokenRequest.authentication.k8s.io "sa" is invalid: metadata.namespace: Invalid value: "other": ` +
				`must match the service account namespace if specified`},
		"other name": {meta: metav1.ObjectMeta{Name: "other"},
			want: `TokenRequest.authentication.k8s.io "sa" is invalid: metadata.name: Invalid value: "other": must ` +
				`match the service account name if specified`},
	} {
		t.Run(name, func(t *testing.T) {
			p := &fakeIssuer{}
			if c.account == "" {
				c.account = "sa"
			}
			ctx := request.WithNamespace(t.Context(), "ns")
			out, err := endpoint(p).Create(ctx, c.account, &authenticationv1.TokenRequest{ObjectMeta: c.meta,
				Spec: c.spec}, nil, nil)
			if c.want != "" {
				if err == nil || err.Error() != c.want {
					t.Errorf("error %v, want %s", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r := out.(*authenticationv1.TokenRequest)
			if p.lastRequest.Lifetime != c.life || p.lastRequest.WarnAfter != c.warn ||
				*r.Spec.ExpirationSeconds != c.seconds || r.Status.Token != "signed" {
				t.Errorf("life %v, warn %v, answered %d", p.lastRequest.Lifetime, p.lastRequest.WarnAfter,
					*r.Spec.ExpirationSeconds)
			}
			if got := r.Status.ExpirationTimestamp.Sub(r.CreationTimestamp.Time); got !=
				time.Duration(c.seconds)*time.Second {
				t.Errorf("expires after %v", got)
			}
		})
	}
}

// A token for webhooks says about which API group it speaks: one, by the one key there is.
func TestAttestationsOfTokensForWebhooks(t *testing.T) {
	for name, c := range map[string]struct {
		attestations map[string]authenticationv1.AttestationValue
		want         string // empty: valid
	}{
		"one group":  {attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"apps"}}},
		"any group":  {attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"*"}}},
		"a long one": {attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"a.b.io"}}},
		"none": {want: "spec.attestations: Invalid value: null: webhook bound requests require exactly one " +
			"admissionReviewAPIGroups attestation"},
		"two": {attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"apps"},
			"other": {"b"}}, want: `spec.attestations: Invalid value: {"admissionReviewAPIGroups":["apps"],"other":["b"]}: ` +
			"webhook bound requests require exactly one admissionReviewAPIGroups attestation"},
		"another key": {attestations: map[string]authenticationv1.AttestationValue{"groups": {"apps"}},
			want: `spec.attestations[groups]: Unsupported value: "groups": supported values: "admissionReviewAPIGroups"`},
		"no value": {attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {}},
			want: "spec.attestations[admissionReviewAPIGroups]: Invalid value: []: must specify a single value"},
		"two values": {attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"a", "b"}},
			want: `spec.attestations[admissionReviewAPIGroups]: Invalid value: ["a","b"]: must specify a single value`},
		"the core group": {attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {""}},
			want: `spec.attestations[admissionReviewAPIGroups][0]: Invalid value: "": may not be an empty string`},
		"no group's name": {
			attestations: map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"Apps"}},
			want: `spec.attestations[admissionReviewAPIGroups][0]: Invalid value: "Apps": must specify a valid API Group: ` +
				"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must " +
				"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
				`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if errs := validateAttestations(c.attestations, field.NewPath("spec", "attestations")); len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
