package flowcontrol

import (
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

// The objects every cluster has pass the checks, and the mandatory ones stay as they are.
func TestBootstrapObjects(t *testing.T) {
	for _, s := range append(bootstrap.SuggestedFlowSchemas, bootstrap.MandatoryFlowSchemas...) {
		if errs := checkSchema(s, nil); len(errs) > 0 {
			t.Errorf("got %v, %v, want no errs", s.Name, errs)
		}
	}
	for _, l := range append(bootstrap.SuggestedPriorityLevelConfigurations,
		bootstrap.MandatoryPriorityLevelConfigurations...) {
		if errs := checkLevel(l, nil); len(errs) > 0 {
			t.Errorf("got %v, %v, want no errs", l.Name, errs)
		}
	}
	other := bootstrap.MandatoryPriorityLevelConfigurationCatchAll.DeepCopy()
	other.Spec.Limited.NominalConcurrencyShares = new(int32)
	if errs := checkLevel(other, nil); len(errs) != 1 || !strings.Contains(errs[0].Error(),
		"spec of 'catch-all' must equal the fixed value") {
		t.Errorf(`got %v, want 1 in errs and errs[0] with "spec of 'catch-all' must equal the fixed value"`, errs)
	}
}

func TestSchemas(t *testing.T) {
	good := func(change func(*flowcontrolv1.FlowSchema)) *flowcontrolv1.FlowSchema {
		s := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: flowcontrolv1.FlowSchemaSpec{
			MatchingPrecedence: 100, PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{
				Name: "p"},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser,
					User: &flowcontrolv1.UserSubject{Name: "u"}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"},
					Resources: []string{"*"}, ClusterScope: true}},
			}},
		}}
		if change != nil {
			change(s)
		}
		return s
	}
	for want, s := range map[string]*flowcontrolv1.FlowSchema{
		"": good(nil),
		"only the schema named 'exempt' may have matchingPrecedence 1": good(func(s *flowcontrolv1.FlowSchema) {
			s.Spec.MatchingPrecedence = 1
		}),
		"must not be greater than 10000": good(func(s *flowcontrolv1.FlowSchema) {
			s.Spec.MatchingPrecedence = 10001
		}),
		"spec.priorityLevelConfiguration.name: Required value": good(func(s *flowcontrolv1.FlowSchema) {
			s.Spec.PriorityLevelConfiguration.Name = ""
		}),
		"user is required when subject kind is 'User'": good(func(s *flowcontrolv1.FlowSchema) {
			s.Spec.Rules[0].Subjects[0].User = nil
		}),
		"if '*' is present, must not specify other verbs": good(func(s *flowcontrolv1.FlowSchema) {
			s.Spec.Rules[0].ResourceRules[0].Verbs = []string{"*", "get"}
		}),
		"at least one of resourceRules and nonResourceRules": good(func(s *flowcontrolv1.FlowSchema) {
			s.Spec.Rules[0].ResourceRules = nil
		}),
	} {
		got := ""
		if err := checkSchema(s, nil).ToAggregate(); err != nil {
			got = err.Error()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestLevels(t *testing.T) {
	level := func(
		change func(*flowcontrolv1.PriorityLevelConfigurationSpec)) *flowcontrolv1.PriorityLevelConfiguration {
		l := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "l"},
			Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementLimited,
				Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue,
						Queuing: &flowcontrolv1.QueuingConfiguration{}},
				},
			}}
		defaultLevel(l)
		if change != nil {
			change(&l.Spec)
		}
		return l
	}
	for want, l := range map[string]*flowcontrolv1.PriorityLevelConfiguration{
		"": level(nil),
		"must be 'Exempt' if and only if `name` is 'exempt'": level(
			func(s *flowcontrolv1.PriorityLevelConfigurationSpec) {
				*s = flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementExempt,
					Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{}}
			}),
		"spec.limited: Required value": level(func(s *flowcontrolv1.PriorityLevelConfigurationSpec) {
			s.Limited = nil
		}),
		"should not be greater than queues": level(func(s *flowcontrolv1.PriorityLevelConfigurationSpec) {
			s.Limited.LimitResponse.Queuing.HandSize = 65
		}),
		"required entropy bits of deckSize": level(func(s *flowcontrolv1.PriorityLevelConfigurationSpec) {
			s.Limited.LimitResponse.Queuing.HandSize = 30
		}),
		"must be between 0 and 100": level(func(s *flowcontrolv1.PriorityLevelConfigurationSpec) {
			n := int32(101)
			s.Limited.LendablePercent = &n
		}),
	} {
		got := ""
		if err := checkLevel(l, nil).ToAggregate(); err != nil {
			got = err.Error()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
