package serviceaccounts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/auth/token"
)

const (
	defaultLifetime = 3600
	// podLifetime is what the projected token volumes of Pods ask for. Such a token is good for a
	// year (extendedLifetime), and warned about after podLifetime: clients that never read the file
	// again keep working. Upstream's rule.
	podLifetime      = 3607
	extendedLifetime = 365 * 24 * time.Hour
)

// Issuer signs tokens.
type Issuer interface {
	Issue(w token.TokenRequest, now time.Time) (string, error)
}

// Deps are what the endpoint needs.
type Deps struct {
	Lookup    func(group, resource string) rest.StandardStorage
	Issuer    Issuer
	Audiences authenticator.Audiences // of the API server, taken when a request names none
	Now       func() time.Time        // default time.Now
}

// TokenREST is the endpoint serviceaccounts/token.
type TokenREST struct{ deps Deps }

// NewTokenREST makes the endpoint.
func NewTokenREST(d Deps) *TokenREST {
	if d.Now == nil {
		d.Now = time.Now
	}
	return &TokenREST{d}
}

// New implements rest.Storage.
func (t *TokenREST) New() runtime.Object { return &authenticationv1.TokenRequest{} }

// Destroy implements rest.Storage.
func (t *TokenREST) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (t *TokenREST) NamespaceScoped() bool { return true }

// GroupVersionKind implements rest.GroupVersionKindProvider: the object is another group's.
func (t *TokenREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
}

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps the UID of the request: it is a
// precondition on the account.
func (t *TokenREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Create implements rest.NamedCreater. A dry run is answered like any other, as upstream does:
// nothing is stored either way.
func (t *TokenREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	req, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest: %T", obj))
	}
	req = req.DeepCopy()
	namespace := request.NamespaceValue(ctx)
	if req.Name != "" && req.Name != name {
		return nil, invalid(name, field.Invalid(field.NewPath("metadata", "name"), req.Name,
			"must match the service account name if specified"))
	}
	if req.Namespace != "" && req.Namespace != namespace {
		return nil, invalid(name, field.Invalid(field.NewPath("metadata", "namespace"), req.Namespace,
			"must match the service account namespace if specified"))
	}
	found, err := deletedRecently(ctx, t.deps.Lookup("", "serviceaccounts"), name, nil)
	if err != nil {
		return nil, err
	}
	account, ok := found.(*corev1.ServiceAccount)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("not a ServiceAccount: %T", found))
	}
	if req.UID != "" && req.UID != account.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: authenticationv1.GroupName,
			Resource: "TokenRequest"}, name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", req.UID,
				account.UID))
	}
	now := t.deps.Now()
	t.fill(req, account, now)
	if errs := validateRequest(&req.Spec); len(errs) > 0 {
		return nil, invalid("", errs...)
	}
	if validate != nil {
		if err := validate(ctx, req.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	request := token.TokenRequest{Account: account, Audiences: req.Spec.Audiences,
		Lifetime: seconds(*req.Spec.ExpirationSeconds), ID: string(uuid.NewUUID())}
	if err := t.bindToObject(ctx, req.Spec.BoundObjectRef, &request); err != nil {
		return nil, err
	}
	if request.Pod != nil && *req.Spec.ExpirationSeconds == podLifetime && t.isOwnAudience(req.Spec.Audiences) {
		request.WarnAfter, request.Lifetime = request.Lifetime, extendedLifetime
	}
	raw, err := t.deps.Issuer.Issue(request, now)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	audit.AddAuditAnnotation(ctx, serviceaccount.IssuedCredentialIDAuditAnnotationKey,
		tokenjwt.CredentialIDForJTI(request.ID))
	req.Status = authenticationv1.TokenRequestStatus{
		Token: raw, ExpirationTimestamp: metav1.NewTime(now.Add(seconds(*req.Spec.ExpirationSeconds))),
	}
	return req, nil
}

// fill writes what the request left out.
func (t *TokenREST) fill(req *authenticationv1.TokenRequest, account *corev1.ServiceAccount, now time.Time) {
	req.Name, req.Namespace, req.UID = account.Name, account.Namespace, account.UID
	req.CreationTimestamp = metav1.NewTime(now)
	req.Status = authenticationv1.TokenRequestStatus{}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = t.deps.Audiences
	}
	if req.Spec.ExpirationSeconds == nil {
		life := int64(defaultLifetime)
		req.Spec.ExpirationSeconds = &life
	}
}

// isOwnAudience tells that a token is for this server alone.
func (t *TokenREST) isOwnAudience(audiences []string) bool {
	return len(audiences) > 0 && len(t.deps.Audiences.Intersect(audiences)) == len(audiences)
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// validateRequest validates lifetime and attestations, which only tokens for webhooks have.
func validateRequest(s *authenticationv1.TokenRequestSpec) field.ErrorList {
	spec := field.NewPath("spec")
	at := spec.Child("attestations")
	webhook := isWebhook(s.BoundObjectRef)
	if !webhook && len(s.Attestations) > 0 {
		return field.ErrorList{field.Invalid(at, s.Attestations,
			"attestations may only be specified with a webhook bound object reference")}
	}
	var errs field.ErrorList
	const shortest, longest = 10 * 60, 1 << 32
	switch n := *s.ExpirationSeconds; {
	case n < shortest:
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), n,
			"may not specify a duration less than 10 minutes"))
	case n > longest:
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), n,
			"may not specify a duration larger than 2^32 seconds"))
	}
	if !webhook {
		return errs
	}
	if len(s.Audiences) != 1 {
		errs = append(errs, field.Invalid(spec.Child("audiences"), s.Audiences,
			"must be length 1 when bound to a webhook config"))
	}
	return append(errs, validateAttestations(s.Attestations, at)...)
}

// validateAttestations validates the attestations of a token that is bound to webhooks: one, about
// one API group or, by "*", all of them. The core group, "", is the API server's alone, which asks
// for "*".
func validateAttestations(all map[string]authenticationv1.AttestationValue, at *field.Path) field.ErrorList {
	if len(all) != 1 {
		return field.ErrorList{field.Invalid(at, all,
			"webhook bound requests require exactly one admissionReviewAPIGroups attestation")}
	}
	const groups = authenticationv1.AttestationAdmissionReviewAPIGroups
	values, known := all[groups]
	if !known {
		unknown := slices.Collect(maps.Keys(all))[0]
		return field.ErrorList{field.NotSupported(at.Key(unknown), unknown, []string{groups})}
	}
	at = at.Key(groups)
	if len(values) != 1 {
		return field.ErrorList{field.Invalid(at, values, "must specify a single value")}
	}
	at, group := at.Index(0), values[0]
	var errs field.ErrorList
	switch group {
	case "":
		errs = append(errs, field.Invalid(at, group, "may not be an empty string"))
	case "*":
	default:
		for _, reason := range validation.IsDNS1123Subdomain(group) {
			errs = append(errs, field.Invalid(at, group, "must specify a valid API Group: "+reason))
		}
	}
	return errs
}

// isWebhook reports whether a token is to be bound to the configuration of webhooks.
func isWebhook(r *authenticationv1.BoundObjectReference) bool {
	return r != nil && r.APIVersion == "admissionregistration.k8s.io/v1" &&
		(r.Kind == "ValidatingWebhookConfiguration" || r.Kind == "MutatingWebhookConfiguration")
}

func invalid(name string, errs ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}, name, errs)
}
