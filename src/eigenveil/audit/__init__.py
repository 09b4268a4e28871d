"""Empirical lower bounds on epsilon: what an attacker can show, not what a proof promises."""

from eigenveil.audit.auditor import AuditReport, Finding, audit, audit_mechanism

__all__ = ["AuditReport", "Finding", "audit", "audit_mechanism"]
