package serviceaccount

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// enforceMountable is the annotation by which an account limits its Pods to the Secrets it lists.
const enforceMountable = "kubernetes.io/enforce-mountable-secrets"

// checkMirror refuses a mirror Pod that would make its node need anything: a node writes them
// itself.
func checkMirror(pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return errors.New("a mirror pod may not reference service accounts")
	}
	secrets, configMaps := false, false
	visitContainers(pod, func(c *corev1.Container) {
		for _, f := range c.EnvFrom {
			secrets = secrets || f.SecretRef != nil
			configMaps = configMaps || f.ConfigMapRef != nil
		}
		for _, e := range c.Env {
			secrets = secrets || e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil
			configMaps = configMaps || e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil
		}
	})
	for _, v := range pod.Spec.Volumes {
		secrets = secrets || v.Secret != nil
		configMaps = configMaps || v.ConfigMap != nil
		if v.PersistentVolumeClaim != nil {
			return errors.New("a mirror pod may not reference persistentvolumeclaims")
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			secrets = secrets || s.Secret != nil
			configMaps = configMaps || s.ConfigMap != nil
			if s.ServiceAccountToken != nil {
				return errors.New("a mirror pod may not use serviceAccountToken volume projections")
			}
		}
	}
	switch {
	case secrets || len(pod.Spec.ImagePullSecrets) > 0:
		return errors.New("a mirror pod may not reference secrets")
	case configMaps:
		return errors.New("a mirror pod may not reference configmaps")
	}
	return nil
}

func visitContainers(pod *corev1.Pod, visit func(*corev1.Container)) {
	for i := range pod.Spec.InitContainers {
		visit(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		visit(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		visit(&c)
	}
}

// limitSecretReferences refuses a Pod that refers to a Secret its account does not list.
func limitSecretReferences(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	listed := map[string]bool{}
	for _, s := range account.Secrets {
		listed[s.Name] = true
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && !listed[v.Secret.SecretName] {
			return fmt.Errorf("volume with secret.secretName=%q is not allowed because service account %s does not "+
				"reference that secret", v.Secret.SecretName, account.Name)
		}
	}
	for _, part := range []struct {
		kind string
		list []corev1.Container
	}{{"init container", pod.Spec.InitContainers}, {"container", pod.Spec.Containers}} {
		for _, c := range part.list {
			if err := checkEnv(part.kind, &c, account.Name, listed); err != nil {
				return err
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if err := checkEnv("ephemeral container", &c, account.Name, listed); err != nil {
			return err
		}
	}
	pullSecrets := map[string]bool{}
	for _, s := range account.ImagePullSecrets {
		pullSecrets[s.Name] = true
	}
	for i, s := range pod.Spec.ImagePullSecrets {
		if !pullSecrets[s.Name] {
			return fmt.Errorf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not "+
				"reference that imagePullSecret", i, s.Name, account.Name)
		}
	}
	return nil
}

func checkEnv(kind string, c *corev1.Container, account string, listed map[string]bool) error {
	for _, e := range c.Env {
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil || listed[e.ValueFrom.SecretKeyRef.Name] {
			continue
		}
		return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=%q is not allowed because service "+
			"account %s does not reference that secret",
			kind, c.Name, e.Name, e.ValueFrom.SecretKeyRef.Name, account)
	}
	for _, f := range c.EnvFrom {
		if f.SecretRef != nil && !listed[f.SecretRef.Name] {
			return fmt.Errorf("%s %s with envFrom referencing secret.secretName=%q is not allowed because service "+
				"account %s does not reference that secret",
				kind, c.Name, f.SecretRef.Name, account)
		}
	}
	return nil
}
