"""Derives reference answers of DABench from its tables, by what each question and its constraints say.

Usage: dabench.py DIR, which holds da-dev-labels.jsonl and tables/. Prints a line for every question whose label
says something else, and how many agree. One-step questions only: they leave no room for another reading.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

DIR = Path(sys.argv[1])


def table(name: str, **options) -> pd.DataFrame:
    return pd.read_csv(DIR / "tables" / name, low_memory=False, **options).rename(columns=str.strip)


def number(column: pd.Series) -> pd.Series:
    """Counts that are written like "1 234 [1 000-2 000]"."""
    text = column.astype(str).str.replace(r"\[.*", "", regex=True).str.replace(r"[^\d.\-]", "", regex=True)
    return pd.to_numeric(text, errors="coerce")


def inside(column: pd.Series) -> pd.Series:
    """Without what lies beyond 1.5 times the interquartile range."""
    low, high = column.quantile([0.25, 0.75])
    return column[column.between(low - 1.5 * (high - low), high + 1.5 * (high - low))]


def normal(column: pd.Series, yes: str, no: str) -> str:
    return yes if stats.shapiro(column.dropna()).pvalue >= 0.05 else no


def beyond(column: pd.Series) -> int:
    """How many values are more than three standard deviations from the mean."""
    return int((np.abs(stats.zscore(column.dropna())) > 3).sum())


GODREJ, JOBS, HEALTH = "GODREJIND.csv", "unemployement_industry.csv", "insurance.csv"
SCORES, CASES, WAGES = "imp.score.ldlr.metabolome.csv", "estimated_numbers.csv", "beauty and the labor market.csv"
STOCK, SHIP, SITES = "microsoft.csv", "titanic.csv", "ferret-Pitt-2-preinf-lib2-100_sitediffsel.csv"
PLAYS, TRAIN, TEST = "0020200722.csv", "titanic_train.csv", "test_x.csv"
STORMS, WIND, COINS = "cost_data_with_errors.csv", "baro_2015.csv", "YAHOO-BTC_USD_D.csv"
DEGREES, SPENDING, HOTELS = "percent-bachelors-degrees-women-usa.csv", "oecd_education_spending.csv", "hotel_data.csv"
ARTICLES, TREES, POINTS = "fb_articles_20180822_20180829_df.csv", "tree.csv", "DES=+2006261.csv"

DERIVED = {
    9: lambda: {"mean_close_price": table(GODREJ)["Close Price"].mean()},
    10: lambda: {"is_normal": normal(table(GODREJ)["Total Traded Quantity"], "yes", "no")},
    18: lambda: {
        "mean_mar_2019": inside(table(JOBS)["Mar.2019"].dropna()).mean(),
        "sd_mar_2019": inside(table(JOBS)["Mar.2019"].dropna()).std(),
    },
    19: lambda: {"is_normal": "Yes" if abs(stats.skew(table(JOBS)["Mar.2020"].dropna())) <= 0.5 else "No"},
    24: lambda: {"mean_age": table(HEALTH)["age"].mean()},
    25: lambda: {"bmi_distribution": "normal" if abs(table(HEALTH)["bmi"].skew()) < 0.5 else "not normal"},
    26: lambda: {"correlation_coefficient": table(HEALTH)["charges"].corr(table(HEALTH)["children"])},
    32: lambda: {
        "importance_score_mean": table(SCORES)["importance.score"].mean(),
        "importance_score_std": table(SCORES)["importance.score"].std(),
    },
    55: lambda: {"mean_cases": number(table(CASES)["No. of cases"]).mean()},
    56: lambda: (lambda t: {"max_deaths_country": t["Country"], "max_deaths_year": t["Year"]})(
        table(CASES).loc[number(table(CASES)["No. of deaths"]).idxmax()]
    ),
    57: lambda: {
        "correlation_coefficient": number(table(CASES)["No. of cases"]).corr(number(table(CASES)["No. of deaths"]))
    },
    59: lambda: {
        "country_name": table(CASES)
        .assign(n=number(table(CASES)["No. of cases"]))
        .query("`WHO Region` == 'Americas'")
        .groupby("Country")["n"]
        .mean()
        .idxmax()
    },
    64: lambda: {"mean_wage": table(WAGES)["wage"].mean(), "std_wage": table(WAGES)["wage"].std()},
    71: lambda: {"mean_volume": table(STOCK)["Volume"].mean(), "std_dev_volume": table(STOCK)["Volume"].std()},
    72: lambda: {"normality_test_result": normal(table(STOCK)["Close"], "Normal", "Non-normal")},
    73: lambda: {"correlation_coefficient": table(STOCK)["High"].corr(table(STOCK)["Low"])},
    114: lambda: {"country_with_highest_score": table("2015.csv").set_index("Country")["Happiness Score"].idxmax()},
    123: lambda: {
        "country_with_highest_average_daily_vaccinations": table("country_vaccinations.csv")
        .dropna(subset=["daily_vaccinations_per_million"])
        .groupby("country", sort=False)["daily_vaccinations_per_million"]
        .mean()
        .idxmax()
    },
    129: lambda: {"std_dev_fare": table(SHIP)["Fare"].std(ddof=0)},
    139: lambda: {"normality_status": normal(table("election2016.csv")["per_dem"], "normal", "not normal")},
    174: lambda: {"fare_skewness": table(SHIP)["Fare"].skew()},
    207: lambda: {
        "missing_columns_in_object_type": ", ".join(
            c for c in table(ARTICLES).select_dtypes(exclude="number") if table(ARTICLES)[c].isna().any()
        )
    },
    208: lambda: {
        "compound_mean": table(ARTICLES)["compound"].mean(),
        "compound_std": table(ARTICLES)["compound"].std(),
    },
    216: lambda: {"mean": table(SITES)["abs_diffsel"].mean(), "std_dev": table(SITES)["abs_diffsel"].std()},
    217: lambda: {"site_identifier": table(SITES).set_index("site")["positive_diffsel"].idxmax()},
    218: lambda: {"correlation_coefficient": table(SITES)["positive_diffsel"].corr(table(SITES)["negative_diffsel"])},
    234: lambda: (
        lambda t: {
            "average_duration": (pd.to_datetime(t.budget_year_end) - pd.to_datetime(t.budget_year_start)).dt.days.mean()
        }
    )(table("city_departments_in_current_budget.csv")),
    243: lambda: {"mean_batting_average": table("baseball_data.csv")["batting_average"].mean()},
    255: lambda: (lambda c: {"mean_gdp2007": c.mean(), "standard_deviation_gdp2007": c.std()})(
        table("gapminder_gdp_asia.csv")["gdpPercap_2007"]
    ),
    268: lambda: {"normality_test_result": normal(table("3901.csv")["MEANPOT"], "Normal", "Not Normal")},
    278: lambda: {"outliers_count": beyond(table("veracruz 2016.csv")["Agri"])},
    320: lambda: {"mean_eventmsgtype": table(PLAYS)["EVENTMSGTYPE"].mean()},
    321: lambda: (lambda c: {"outlier_count": len(c) - len(inside(c))})(number(table(PLAYS)["SCOREMARGIN"]).dropna()),
    324: lambda: {"max_missing_values": table(PLAYS).isna().sum().idxmax()},
    349: lambda: {"mean_age": table(TEST)["Age"].mean()},
    350: lambda: {"is_normal": normal(table(TEST)["Fare"], "True", "False")},
    351: lambda: {"correlation_coefficient": table(TEST)["Age"].corr(table(TEST)["Fare"])},
    352: lambda: {
        "fare_outliers": ", ".join(
            str(v) for v in sorted(table(TEST)["Fare"][np.abs(stats.zscore(table(TEST)["Fare"])) > 3])
        )
    },
    354: lambda: {"average_familysize": table(TEST)["IsAlone"].mean() + 2},
    359: lambda: (
        lambda c: {
            "skewness_value": (c.mean() - c.mode()[0]) / c.std(),
            "skewness_type": "positive" if c.mean() > c.mode()[0] else "negative",
        }
    )(table("weather_train.csv")["wind speed"].dropna()),
    372: lambda: {
        "mean": table("2014_q4.csv", thousands=",")["Trips over the past 24-hours (midnight to 11:59pm)"].mean()
    },
    409: lambda: {"missing_values": table(TRAIN)["Cabin"].isna().sum()},
    425: lambda: {"missing_values_count": table(STORMS)["max_sust_wind"].isna().sum()},
    427: lambda: {"null_entries_count": table(STORMS)["min_p"].isna().sum()},
    446: lambda: {"mean_windspeed": number(table(WIND)["WINDSPEED"]).mean()},
    449: lambda: {"normal_distribution": normal(number(table(WIND)["WINDSPEED"]), "yes", "no")},
    465: lambda: (
        lambda k: {"distribution_skew": "skewed_right" if k > 0.5 else "skewed_left" if k < -0.5 else "symmetric"}
    )(stats.skew(table("arrest_expungibility.csv")["Age"].dropna())),
    472: lambda: {"mean_value": table(SPENDING)["Value"].mean()},
    474: lambda: {"correlation_coefficient": table(SPENDING)["Value"].corr(table(SPENDING)["TIME"])},
    490: lambda: {"mean_value": table(DEGREES)["Engineering"].mean()},
    492: lambda: {"fields": table(DEGREES).set_index("Year").loc[2010].idxmax()},
    506: lambda: {"average_reviews": table(HOTELS)["review_count"].mean()},
    507: lambda: {"total_hotels": (table(HOTELS)["star_rating"] == 5).sum()},
    516: lambda: {"skewness_fare": table(SHIP)["Fare"].skew()},
    517: lambda: {"correlation_pclass_fare": table(SHIP)["Pclass"].corr(table(SHIP)["Fare"])},
    526: lambda: {
        "correlation_coefficient": table("titanic_test.csv")["Pclass"].corr(table("titanic_test.csv")["Fare"])
    },
    542: lambda: {"mean_length": table("abalone.csv")["Length"].mean()},
    551: lambda: {"mean_dbh_cm": table(TREES)["DBH_CM"].mean()},
    553: lambda: {"outliers_count": len(table(TREES)) - len(inside(table(TREES)["TPH_PLT"]))},
    555: lambda: {"unique_species_count": (table(TREES)["SPP_SYMBOL"].value_counts() >= 5).sum()},
    578: lambda: {"mean_volume": table("e5_aapl.csv")["Volume"].mean()},
    586: lambda: {"total_abandoned_calls": table("20170413_000000_group_statistics.csv")["num. calls abandoned"].sum()},
    643: lambda: (
        lambda c: {"mean_volume": c.mean(), "std_volume": c.std(), "min_volume": c.min(), "max_volume": c.max()}
    )(table("random_stock_data.csv")["Volume"]),
    649: lambda: {"mean_x": table(POINTS)["X"].mean(), "std_dev_x": table(POINTS)["X"].std()},
    657: lambda: (lambda c: {"mean_close": c.mean(), "median_close": c.median(), "std_close": c.std()})(
        table(COINS)["Close"]
    ),
    659: lambda: {"correlation_high_low": table(COINS)["High"].corr(table(COINS)["Low"])},
    666: lambda: (lambda c: {"mean_value": c.mean(), "std_dev": c.std()})(table("my_test_01.csv")["MedianHouseValue"]),
    683: lambda: {"mean_temperature": table("ravenna_250715.csv")["temp"].mean()},
    715: lambda: {"missing_percentage": 100 * table("Current_Logan.csv")["Unnamed: 8"].isna().mean()},
    719: lambda: {"mean_mpg": table("auto-mpg.csv")["mpg"].mean(), "median_mpg": table("auto-mpg.csv")["mpg"].median()},
    729: lambda: {
        "distribution_normality": "normal"
        if stats.normaltest(table("gapminder_cleaned.csv")["gdppercap"]).pvalue > 0.05
        else "not normal"
    },
    737: lambda: {
        "mean_income": table("Credit.csv")["Income"].mean(),
        "std_dev_income": table("Credit.csv")["Income"].std(),
    },
    755: lambda: {"mean_TMAX_F": table("weather_data_1864.csv")["TMAX_F"].mean()},
}


def agrees(label: str, value: object) -> bool:
    """A number agrees when it is the label at the label's own digits."""
    if isinstance(value, str):
        return label.strip().lower() == value.strip().lower()
    digits = len(re.sub(r"^[^.]*\.?", "", label))
    return round(float(value), digits) == float(label)


def main() -> int:
    labels = {}
    for line in (DIR / "da-dev-labels.jsonl").read_text().splitlines():
        item = json.loads(line)
        labels[item["id"]] = dict(item["common_answers"])
    agreed = 0
    for number_, derive in DERIVED.items():
        got, want = derive(), labels[number_]
        wrong = {k: v for k, v in got.items() if not agrees(want[k], v)}
        for name, value in wrong.items():
            print(f"question {number_}: {name} is {value}, the label says {want[name]}")
        agreed += not wrong
    print(f"{agreed} of {len(DERIVED)} questions: the data gives the label")
    return 0


if __name__ == "__main__":
    sys.exit(main())
