package core

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateEndpoints(*v1.Endpoints) field.ErrorList                         { return nil }
func validateVolume(*v1.PersistentVolume) field.ErrorList                     { return nil }
func validateVolumeUpdate(_, _ *v1.PersistentVolume) field.ErrorList          { return nil }
func warnVolume(*v1.PersistentVolume) []string                                { return nil }
func validateClaimUpdate(_, _ *v1.PersistentVolumeClaim) field.ErrorList      { return nil }
func validateClaimStatus(_, _ *v1.PersistentVolumeClaim) field.ErrorList      { return nil }
func warnClaim(*v1.PersistentVolumeClaim) []string                            { return nil }
func validateController(_, _ *v1.ReplicationController) field.ErrorList       { return nil }
func validateControllerStatus(_, _ *v1.ReplicationController) field.ErrorList { return nil }
func validateLimitRange(*v1.LimitRange) field.ErrorList                       { return nil }
func validateQuota(_, _ *v1.ResourceQuota) field.ErrorList                    { return nil }
func validateQuotaStatus(*v1.ResourceQuota) field.ErrorList                   { return nil }
