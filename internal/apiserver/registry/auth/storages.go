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
		authn.WithResource("tokenreviews"): &review[*authenticationv1.TokenReview]{
			singular: "tokenreview", fresh: func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} }, answer: d.token,
		},
		authn.WithResource("selfsubjectreviews"): &review[*authenticationv1.SelfSubjectReview]{
			singular: "selfsubjectreview", fresh: func() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} }, answer: d.self,
		},
		authz.WithResource("subjectaccessreviews"): &review[*authorizationv1.SubjectAccessReview]{
			singular: "subjectaccessreview", fresh: func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} }, answer: d.subjectAccess,
		},
		authz.WithResource("selfsubjectaccessreviews"): &review[*authorizationv1.SelfSubjectAccessReview]{
			singular: "selfsubjectaccessreview", fresh: func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} }, answer: d.selfAccess,
		},
		authz.WithResource("localsubjectaccessreviews"): &review[*authorizationv1.LocalSubjectAccessReview]{
			singular: "localsubjectaccessreview", namespaced: true, fresh: func() *authorizationv1.LocalSubjectAccessReview { return &authorizationv1.LocalSubjectAccessReview{} }, answer: d.localAccess,
		},
		authz.WithResource("selfsubjectrulesreviews"): &review[*authorizationv1.SelfSubjectRulesReview]{
			singular: "selfsubjectrulesreview", fresh: func() *authorizationv1.SelfSubjectRulesReview { return &authorizationv1.SelfSubjectRulesReview{} }, answer: d.rules,
		},
	}
}

// review is a create-only endpoint that answers in the object it was asked with.
type review[T runtime.Object] struct {
	singular   string
	namespaced bool
	fresh      func() T
	// answer checks the question, calls admit once it is well formed, and returns the object with its status.
	answer func(ctx context.Context, in T, admit func() error) (runtime.Object, error)
}

// New implements rest.Storage.
func (r *review[T]) New() runtime.Object { return r.fresh() }

// Destroy implements rest.Storage.
func (r *review[T]) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (r *review[T]) NamespaceScoped() bool { return r.namespaced }

// GetSingularName implements rest.SingularNameProvider.
func (r *review[T]) GetSingularName() string { return r.singular }

// Create implements rest.Creater.
func (r *review[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	in, ok := obj.(T)
	if !ok {
		return nil, unexpected(obj)
	}
	return r.answer(ctx, in, func() error {
		if validate == nil {
			return nil
		}
		return validate(ctx, in.DeepCopyObject())
	})
}
