package controllers_test

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/control/serviceaccounttoken"
	"github.com/gantry-project/gantry/internal/features"
)

// tokenSecret is a ServiceAccount and the Secret of its token, to which it refers.
const tokenSecret = `kind: ServiceAccount
metadata: {name: robot}
secrets: [{name: robot-token}]
---
kind: Secret
metadata: {name: robot-token, annotations: {kubernetes.io/service-account.name: robot}}
type: kubernetes.io/service-account-token
`

// rowsOfHandMade are the controllers of what people make by hand: tokens in Secrets, policies,
// groups.
var rowsOfHandMade = []row{
	{name: "serviceaccounttoken", set: func(c *controllerruntime.ControllerContext) {
		c.ServiceAccountToken = func(a *corev1.ServiceAccount, s *corev1.Secret) (string, error) {
			return a.Name + " " + s.Name, nil
		}
	}, steps: []step{
		{makes(tokenSecret), fieldIs("Secret/robot-token", "data.token", "cm9ib3Qgcm9ib3QtdG9rZW4=")},
		{patches("Secret/robot-token", `{"data":{"token":null}}`),
			fieldIs("Secret/robot-token", "data.token", "cm9ib3Qgcm9ib3QtdG9rZW4=")},
		{deletes("ServiceAccount/robot"), isGone("Secret/robot-token")}}},
	{name: "legacytokencleaner", set: func(c *controllerruntime.ControllerContext) {
		c.LegacyTokenCleanUpPeriod = time.Second
		c.Now = func() time.Time { return time.Now().AddDate(0, 0, 3) } // uses were noted for days
	}, steps: []step{{makes(tokenSecret), isMarkedInvalid}}},
	{name: "podgroupprotection", gates: features.Features{GenericWorkload: true},
		set: func(c *controllerruntime.ControllerContext) { c.PodGroups = true }, steps: []step{
			{func(w *instance) {
				w.make("kind: PodGroup\nmetadata: {name: crew}\nspec: {schedulingPolicy: {basic: {}}}\n---\n" +
					pod("one", "") + "  schedulingGroup: {podGroupName: crew}\n")
				w.delete("PodGroup/crew")
			}, func(w *instance) error {
				if w.get("PodGroup/crew") == nil {
					return errors.New("the group is gone before its Pod")
				}
				return nil
			}},
			{deletes("Pod/one"), isGone("PodGroup/crew")}}},
	{name: "validatingadmissionpolicystatus", steps: []step{
		{makes(`kind: ValidatingAdmissionPolicy
metadata: {name: NS-few}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations: [{expression: object.spec.replicaz <= 5}]
`), allOf(fieldIs("ValidatingAdmissionPolicy/NS-few", "status.observedGeneration", "1"),
			fieldIs("ValidatingAdmissionPolicy/NS-few", "status.typeChecking.expressionWarnings[0].fieldRef",
				"spec.validations[0].expression"))},
		{patches("ValidatingAdmissionPolicy/NS-few", `{"spec":{"validations":[{"expression":"true"}]}}`),
			allOf(fieldIs("ValidatingAdmissionPolicy/NS-few", "status.observedGeneration", "2"),
				fieldIs("ValidatingAdmissionPolicy/NS-few", "status.typeChecking.expressionWarnings", ""))}}},
}

func isMarkedInvalid(w *instance) error {
	day := w.get("Secret/robot-token").GetLabels()[serviceaccounttoken.InvalidSinceLabel]
	if want := time.Now().UTC().AddDate(0, 0, 3).Format(time.DateOnly); day != want {
		return fmt.Errorf("the token is invalid since %q, want %s", day, want)
	}
	return nil
}
