package config

import (
	"errors"
	"fmt"
	"net/url"
)

// Telemetry is what a process sends to collectors.
type Telemetry struct {
	Traces Traces `yaml:"traces"`
}

// Traces are OpenTelemetry's. The variables OTEL_EXPORTER_OTLP_*, OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_SERVICE_NAME and OTEL_SDK_DISABLED win over this section.
type Traces struct {
	// Endpoint is the collector's OTLP address over gRPC: http://HOST:4317, or https:// for TLS. Empty sends nothing.
	Endpoint string `yaml:"endpoint"`
	// SampleRatio is the share of prompts whose traces are kept, from 0 to 1.
	SampleRatio float64 `yaml:"sample_ratio"`
}

func (t Traces) validate() error {
	var errs []error
	if t.Endpoint != "" {
		u, err := url.Parse(t.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("telemetry.traces.endpoint: %q is not http://HOST:PORT or https://HOST:PORT", t.Endpoint))
		} else if u.User != nil {
			errs = append(errs, errors.New("telemetry.traces.endpoint: no user in it; what the collector asks for goes into OTEL_EXPORTER_OTLP_HEADERS"))
		}
	}
	if !(t.SampleRatio >= 0 && t.SampleRatio <= 1) {
		errs = append(errs, fmt.Errorf("telemetry.traces.sample_ratio: %v is not from 0 to 1", t.SampleRatio))
	}
	return errors.Join(errs...)
}
