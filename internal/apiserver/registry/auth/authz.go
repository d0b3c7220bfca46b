package auth

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func invalid(errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}

// subjectAccessReview answers whether somebody may do something.
func (d Deps) subjectAccessReview(ctx context.Context, in *authorizationv1.SubjectAccessReview,
	admit func() error) (runtime.Object, error) {
	if errs := validateSubject(in); len(errs) > 0 {
		return nil, invalid(errs)
	}
	if err := admit(); err != nil {
		return nil, err
	}
	out := in.DeepCopy()
	out.Status = d.authorize(ctx, subject(&in.Spec),
		accessQuestion{in.Spec.ResourceAttributes, in.Spec.NonResourceAttributes})
	return out, nil
}

// selfSubjectAccessReview answers whether who asks may do something.
func (d Deps) selfSubjectAccessReview(ctx context.Context, in *authorizationv1.SelfSubjectAccessReview,
	admit func() error) (runtime.Object, error) {
	if errs := validateSelf(in); len(errs) > 0 {
		return nil, invalid(errs)
	}
	userInfo, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if err := admit(); err != nil {
		return nil, err
	}
	out := in.DeepCopy()
	out.Status = d.authorize(ctx, userInfo, accessQuestion{in.Spec.ResourceAttributes, in.Spec.NonResourceAttributes})
	return out, nil
}

// localSubjectAccessReview answers whether somebody may do something in one namespace.
func (d Deps) localSubjectAccessReview(ctx context.Context, in *authorizationv1.LocalSubjectAccessReview,
	admit func() error) (runtime.Object, error) {
	if errs := validateLocal(in); len(errs) > 0 {
		return nil, invalid(errs)
	}
	namespace := request.NamespaceValue(ctx)
	if namespace == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("namespace is required on this type: %v", namespace))
	}
	if namespace != in.Namespace {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.resourceAttributes.namespace must match namespace: %v",
			namespace))
	}
	if err := admit(); err != nil {
		return nil, err
	}
	out := in.DeepCopy()
	out.Status = d.authorize(ctx, subject(&in.Spec),
		accessQuestion{in.Spec.ResourceAttributes, in.Spec.NonResourceAttributes})
	return out, nil
}

// selfSubjectRulesReview answers everything that who asks may do in a namespace.
func (d Deps) selfSubjectRulesReview(ctx context.Context, in *authorizationv1.SelfSubjectRulesReview,
	admit func() error) (runtime.Object, error) {
	userInfo, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if in.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	if err := admit(); err != nil {
		return nil, err
	}
	resources, paths, incomplete, err := d.Resolver.RulesFor(ctx, userInfo, in.Spec.Namespace)
	out := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
		Incomplete: incomplete,
	}}
	for _, r := range resources {
		out.Status.ResourceRules = append(out.Status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: r.GetVerbs(), APIGroups: r.GetAPIGroups(), Resources: r.GetResources(),
			ResourceNames: r.GetResourceNames(),
		})
	}
	for _, p := range paths {
		out.Status.NonResourceRules = append(out.Status.NonResourceRules,
			authorizationv1.NonResourceRule{Verbs: p.GetVerbs(), NonResourceURLs: p.GetNonResourceURLs()})
	}
	if err != nil {
		out.Status.EvaluationError = err.Error()
	}
	return out, nil
}

func subject(s *authorizationv1.SubjectAccessReviewSpec) user.Info {
	var extra map[string][]string
	for k, v := range s.Extra {
		if extra == nil {
			extra = map[string][]string{}
		}
		extra[k] = v
	}
	return &user.DefaultInfo{Name: s.User, Groups: s.Groups, UID: s.UID, Extra: extra}
}

// accessQuestion is what somebody wants to do; one of the two is set.
type accessQuestion struct {
	resource *authorizationv1.ResourceAttributes
	path     *authorizationv1.NonResourceAttributes
}

func (d Deps) authorize(ctx context.Context, userInfo user.Info,
	q accessQuestion) authorizationv1.SubjectAccessReviewStatus {
	record := authorizer.AttributesRecord{User: userInfo}
	if q.resource != nil {
		record = resourceRecord(userInfo, q.resource)
	} else {
		record.Path, record.Verb = q.path.Path, q.path.Verb
	}
	decision, reason, err := d.Authorizer.Authorize(ctx, record)
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny, Reason: reason,
	}
	status.EvaluationError = evaluationError(err, &record)
	return status
}
