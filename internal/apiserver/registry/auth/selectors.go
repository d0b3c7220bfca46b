package auth

import (
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func resourceRecord(userInfo user.Info, in *authorizationv1.ResourceAttributes) authorizer.AttributesRecord {
	r := authorizer.AttributesRecord{
		User: userInfo, Verb: in.Verb, Namespace: in.Namespace, APIGroup: in.Group, APIVersion: in.Version,
		Resource:    in.Resource,
		Subresource: in.Subresource, Name: in.Name, ResourceRequest: true,
	}
	if r.APIVersion == "" {
		r.APIVersion = "*"
	}
	if s := in.FieldSelector; s != nil {
		r.FieldSelectorRequirements, r.FieldSelectorParsingErr = fieldRequirements(s)
	}
	if s := in.LabelSelector; s != nil {
		r.LabelSelectorRequirements, r.LabelSelectorParsingErr = labelRequirements(s)
	}
	return r
}

// fieldRequirements reads what can be read; what cannot only widens the question, which is safe,
// and is reported.
func fieldRequirements(s *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if s.RawSelector != "" {
		sel, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, err
		}
		return sel.Requirements(), nil
	}
	var out fields.Requirements
	var errs []error
	for _, req := range s.Requirements {
		if len(req.Values) != 1 {
			errs = append(errs, fmt.Errorf("field selectors must have exactly one value: %d", len(req.Values)))
			continue
		}
		op := selection.Equals
		switch req.Operator {
		case metav1.FieldSelectorOpIn:
		case metav1.FieldSelectorOpNotIn:
			op = selection.NotEquals
		default:
			errs = append(errs, fmt.Errorf("%q is not a valid field selector operator", req.Operator))
			continue
		}
		out = append(out, fields.Requirement{Field: req.Key, Operator: op, Value: req.Values[0]})
	}
	return out, utilerrors.NewAggregate(errs)
}

func labelRequirements(s *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if s.RawSelector != "" {
		return labels.ParseToRequirements(s.RawSelector)
	}
	var out labels.Requirements
	var errs []error
	for _, req := range s.Requirements {
		var op selection.Operator
		switch req.Operator {
		case metav1.LabelSelectorOpIn:
			op = selection.In
		case metav1.LabelSelectorOpNotIn:
			op = selection.NotIn
		case metav1.LabelSelectorOpExists:
			op = selection.Exists
		case metav1.LabelSelectorOpDoesNotExist:
			op = selection.DoesNotExist
		default:
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", req.Operator))
			continue
		}
		r, err := labels.NewRequirement(req.Key, op, req.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, *r)
	}
	return out, utilerrors.NewAggregate(errs)
}

func evaluationError(err error, r *authorizer.AttributesRecord) string {
	var out []string
	if err != nil {
		out = append(out, err.Error())
	}
	if e := r.FieldSelectorParsingErr; e != nil {
		how := "ignored"
		if len(r.FieldSelectorRequirements) > 0 {
			how = "partially ignored"
		}
		out = append(out, "spec.resourceAttributes.fieldSelector "+how+" due to parse error")
	}
	if e := r.LabelSelectorParsingErr; e != nil {
		how := "ignored"
		if len(r.LabelSelectorRequirements) > 0 {
			how = "partially ignored"
		}
		out = append(out, "spec.resourceAttributes.labelSelector "+how+" due to parse error")
	}
	return strings.Join(out, "; ")
}
