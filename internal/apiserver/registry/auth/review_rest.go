package auth

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Deps are who answers.
type Deps struct {
	Authenticator authenticator.Request
	Audiences     authenticator.Audiences
	Authorizer    authorizer.Authorizer
	Resolver      authorizer.RuleResolver
}

// Storages are the endpoints by resource.
func Storages(d Deps) map[schema.GroupVersionResource]rest.Storage {
	authn, authz := authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion
	return map[schema.GroupVersionResource]rest.Storage{
		authn.WithResource("tokenreviews"): &reviewREST[*authenticationv1.TokenReview]{
			singular:  "tokenreview",
			newObject: func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} },
			evaluate:  d.tokenReview,
		},
		authn.WithResource("selfsubjectreviews"): &reviewREST[*authenticationv1.SelfSubjectReview]{
			singular:  "selfsubjectreview",
			newObject: func() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} },
			evaluate:  d.selfSubjectReview,
		},
		authz.WithResource("subjectaccessreviews"): &reviewREST[*authorizationv1.SubjectAccessReview]{
			singular: "subjectaccessreview", newObject: func() *authorizationv1.SubjectAccessReview {
				return &authorizationv1.SubjectAccessReview{}
			}, evaluate: d.subjectAccessReview,
		},
		authz.WithResource("selfsubjectaccessreviews"): &reviewREST[*authorizationv1.SelfSubjectAccessReview]{
			singular: "selfsubjectaccessreview", newObject: func() *authorizationv1.SelfSubjectAccessReview {
				return &authorizationv1.SelfSubjectAccessReview{}
			}, evaluate: d.selfSubjectAccessReview,
		},
		authz.WithResource("localsubjectaccessreviews"): &reviewREST[*authorizationv1.LocalSubjectAccessReview]{
			singular: "localsubjectaccessreview", namespaced: true,
			newObject: func() *authorizationv1.LocalSubjectAccessReview {
				return &authorizationv1.LocalSubjectAccessReview{}
			}, evaluate: d.localSubjectAccessReview,
		},
		authz.WithResource("selfsubjectrulesreviews"): &reviewREST[*authorizationv1.SelfSubjectRulesReview]{
			singular: "selfsubjectrulesreview", newObject: func() *authorizationv1.SelfSubjectRulesReview {
				return &authorizationv1.SelfSubjectRulesReview{}
			}, evaluate: d.selfSubjectRulesReview,
		},
	}
}

// reviewREST is a create-only endpoint that answers in the object it was asked with.
type reviewREST[T runtime.Object] struct {
	singular   string
	namespaced bool
	newObject  func() T
	// evaluate checks the question, calls admit once it is well formed, and returns the object with
	// its status.
	evaluate func(ctx context.Context, in T, admit func() error) (runtime.Object, error)
}

// New implements rest.Storage.
func (r *reviewREST[T]) New() runtime.Object { return r.newObject() }

// Destroy implements rest.Storage.
func (r *reviewREST[T]) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (r *reviewREST[T]) NamespaceScoped() bool { return r.namespaced }

// GetSingularName implements rest.SingularNameProvider.
func (r *reviewREST[T]) GetSingularName() string { return r.singular }

// Create implements rest.Creater.
func (r *reviewREST[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	in, ok := obj.(T)
	if !ok {
		return nil, unexpected(obj)
	}
	return r.evaluate(ctx, in, func() error {
		if validate == nil {
			return nil
		}
		return validate(ctx, in.DeepCopyObject())
	})
}
