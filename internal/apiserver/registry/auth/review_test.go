package auth

import (
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
)

// A review asks one question; the refusals are those of v1.37.2's code.
func TestReviewOfOneQuestion(t *testing.T) {
	const one = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
	resource := &authorizationv1.ResourceAttributes{Verb: "get"}
	path := &authorizationv1.NonResourceAttributes{Path: "/", Verb: "get"}
	all := Storages(Deps{})
	for name, c := range map[string]struct {
		resource string
		review   runtime.Object
		want     string
	}{
		"nothing": {"subjectaccessreviews", &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "a"}}, "spec: Invalid value: null: " + one},
		"both": {"subjectaccessreviews", &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "a", ResourceAttributes: resource,
				NonResourceAttributes: path}}, `spec: Invalid value: {"Path":"/","Verb":"get"}: ` + one},
		"nothing of oneself": {"selfsubjectaccessreviews", &authorizationv1.SelfSubjectAccessReview{},
			"spec: Invalid value: null: " + one},
	} {
		create := all[authorizationv1.SchemeGroupVersion.WithResource(c.resource)].(rest.Creater)
		want := `.authorization.k8s.io "" is invalid: ` + c.want
		if _, err := create.Create(t.Context(), c.review, nil, nil); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// What went wrong in a question is told in one line, as upstream joins it.
func TestEvaluationErrors(t *testing.T) {
	r := &authorizer.AttributesRecord{FieldSelectorParsingErr: errors.New("x"),
		LabelSelectorParsingErr: errors.New("x")}
	want := "no; spec.resourceAttributes.fieldSelector ignored due to parse error; " +
		"spec.resourceAttributes.labelSelector ignored due to parse error"
	if got := evaluationError(errors.New("no"), r); got != want {
		t.Errorf("evaluationError = %q, want %q", got, want)
	}
}
